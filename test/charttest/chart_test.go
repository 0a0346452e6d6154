package charttest

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
)

// everything turns on all that can be turned on but rules for alerts.
const everything = `
config:
  log: {level: debug, format: text}
  dispatcher: {concurrency: 512}
  dispatchers: 3
  metrics: {topics: 100000}
  priorities: 5:3:2
  spool: off
  callback: {networks: [10.0.0.0/8, 192.168.0.0/16]}
  gateways: {lmstfy: {ttl: 2h, accounts: /run/wakecall/lmstfy/accounts}}
shutdownSeconds: 60
preStopSeconds: 10
dispatcher: {enabled: true}
keda: {enabled: true, prometheus: "http://prometheus:9090"}
gateways: {lmstfy: 7777, lmstfyAdmin: 7778, phpdq: 6788, delayqueue: 9277, grape: 9521, beanstalk: 11300}
ingress:
  api: {enabled: true, host: api.example.com}
  admin: {enabled: true, host: admin.example.com, tlsSecret: admin-tls, className: nginx, annotations: {a: b}}
httpRoute:
  api: {enabled: true, parentRefs: [{name: public, namespace: gateways}], hostnames: [api.example.com], path: /wakecall}
  admin: {enabled: true, parentRefs: [{name: public}], hostnames: [admin.example.com], annotations: {a: b}}
networkPolicy: {enabled: true, admin: [{ipBlock: {cidr: 10.1.0.0/16}}]}
podMonitor: {enabled: true, labels: {release: prometheus}}
`

func rendered(t *testing.T, values string) []Object {
	t.Helper()
	if testing.Short() {
		t.Skip("builds helm; run without -short")
	}
	once.Lock()
	defer once.Unlock()
	if objects := known[values]; objects != nil {
		return objects
	}
	objects, refusal := Render(t, values)
	if refusal != "" {
		t.Fatal(refusal)
	}
	known[values] = objects
	return objects
}

// known has what several tests look at.
var (
	once  sync.Mutex
	known = map[string][]Object{}
)

// kinds renders the chart as it is by default, and with everything.
func kinds(t *testing.T, test func(t *testing.T, objects []Object)) {
	t.Parallel()
	for name, values := range map[string]string{"default": "", "everything": everything} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, rendered(t, values))
		})
	}
}

func TestChartLint(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds helm; run without -short")
	}
	if _, refusal := Helm(t, "", "lint", "--strict", Chart(t)); refusal != "" {
		t.Error(refusal)
	}
}

func TestChartObjects(t *testing.T) {
	t.Parallel()
	few := []string{
		"ConfigMap/wakecall", "PodDisruptionBudget/wakecall", "Service/wakecall", "Service/wakecall-admin",
		"Service/wakecall-pods", "ServiceAccount/wakecall", "StatefulSet/wakecall",
	}
	all := append([]string{
		"HTTPRoute/wakecall-admin", "HTTPRoute/wakecall-api", "Ingress/wakecall-admin", "Ingress/wakecall-api", "NetworkPolicy/wakecall",
		"PodDisruptionBudget/wakecall-dispatcher", "PodMonitor/wakecall", "ScaledObject/wakecall-dispatcher",
		"Service/wakecall-gateways", "StatefulSet/wakecall-dispatcher",
	}, few...)
	slices.Sort(all)
	for values, want := range map[string][]string{"": few, everything: all} {
		var got []string
		for _, o := range rendered(t, values) {
			got = append(got, o.Name())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("rendered are %q, want %q", got, want)
		}
	}
}

// TestChartRefusesMistypedValues by the schema, and says where each is.
func TestChartRefusesMistypedValues(t *testing.T) {
	t.Parallel()
	refuses(t, `
replica: 3
config: {dispacher: {concurrency: 3}, gateways: {lmstfy: {tll: 3s}}}
keda: {leadMinutes: 11}
gateways: {lmstfy: true}
spread: Sometimes
persistence: {size: 20 Gigabytes}
`,
		"at '': additional properties 'replica' not allowed",
		"at '/config': additional properties 'dispacher' not allowed",
		"at '/config/gateways/lmstfy': additional properties 'tll' not allowed",
		"at '/keda/leadMinutes': maximum: got 11, want 10", "at '/gateways/lmstfy': got boolean, want integer",
		"at '/spread': value must be one of", "at '/persistence/size'",
	)
}

func refuses(t *testing.T, values string, messages ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds helm; run without -short")
	}
	_, refusal := Render(t, values)
	for _, message := range messages {
		if !strings.Contains(refusal, message) {
			t.Errorf("of %s helm says %q, want %q", values, refusal, message)
		}
	}
}

// TestChartRefusesValues that would be ignored, would reveal a secret or would start pods that cannot work, and says
// what to do.
func TestChartRefusesValues(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"config: {server: {addr: ':80'}}":                              "config.server.addr: the chart sets it: set service.api.port",
		"config: {journal: {dir: /tmp}}":                               "config.journal.dir: the chart sets it",
		"config: {shutdown_timeout: 5m}":                               "set shutdownSeconds",
		"config: {registry: {dsn: 'mysql://u:pw@h/db'}}":               "name that in secrets.registryDSN",
		"config: {gateways: {grape: {addr: ':9521'}}}":                 "set gateways.grape to a port",
		"config: {redis: {nodes: ['redis://:pw@h:1/']}}":               "config.redis.nodes: a URL has a password",
		"config: {redis: {nodes: 'redis://:pw@h:1/'}}":                 "config.redis.nodes: a URL has a password",
		"config: {redis: {nodes: ['redis://h:1/']}}":                   "secrets.redisNodes.name: set one of them",
		"secrets: {redisNodes: {name: ''}}":                            "secrets.redisNodes.name: required, or config.redis.nodes",
		"secrets: {sealKey: {name: ''}}":                               "secrets.sealKey.name: required",
		"keda: {enabled: true}":                                        "set dispatcher.enabled, too",
		"{dispatcher: {enabled: true}, keda: {enabled: true}}":         "keda.prometheus: required",
		"keda: {minReplicas: 5, maxReplicas: 4}":                       "keda.minReplicas: 5 is more than",
		"ingress: {api: {enabled: true}}":                              "ingress.api.host: required",
		"httpRoute: {api: {enabled: true}}":                            "httpRoute.api.parentRefs: required",
		"httpRoute: {admin: {enabled: true, parentRefs: [{name: g}]}}": "httpRoute.admin.hostnames: required",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			refuses(t, values, want)
		})
	}
}

func sets(objects []Object) []Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o Object) bool {
		return !strings.HasPrefix(o.Name(), "StatefulSet/")
	})
}

// TestChartSelectorsSelect pods, their ports and services that exist.
func TestChartSelectorsSelect(t *testing.T) {
	kinds(t, func(t *testing.T, objects []Object) {
		for _, set := range sets(objects) {
			if own := selected(objects, set.Part("spec", "selector", "matchLabels")); len(own) != 1 {
				t.Errorf("%s selects the pods of %d sets", set.Name(), len(own))
			}
			Find(t, objects, "Service/"+set.Text("spec", "serviceName"))
			Find(t, objects, "ServiceAccount/"+set.Text("spec", "template", "spec", "serviceAccountName"))
		}
		for _, o := range objects {
			switch kind, _, _ := strings.Cut(o.Name(), "/"); kind {
			case "Service":
				for _, p := range o.List("spec", "ports") {
					selects(t, objects, o, o.Part("spec", "selector"), p.Text("targetPort"))
				}
			case "PodMonitor":
				selects(t, objects, o, o.Part("spec", "selector", "matchLabels"), o.Text("spec", "podMetricsEndpoints", 0, "port"))
			case "PodDisruptionBudget":
				selects(t, objects, o, o.Part("spec", "selector", "matchLabels"), "metrics")
			case "NetworkPolicy":
				for _, rule := range o.List("spec", "ingress") {
					for _, p := range rule.List("ports") {
						selects(t, objects, o, o.Part("spec", "podSelector", "matchLabels"), p.Text("port"))
					}
				}
			case "Ingress":
				to := o.Part("spec", "rules", 0, "http", "paths", 0, "backend", "service")
				service := Find(t, objects, "Service/"+to.Text("name"))
				if to.Text("port", "name") != service.Text("spec", "ports", 0, "name") {
					t.Errorf("%s: %s has no port %s", o.Name(), service.Name(), to.Text("port", "name"))
				}
			case "HTTPRoute":
				to := o.Part("spec", "rules", 0, "backendRefs", 0)
				service := Find(t, objects, "Service/"+to.Text("name"))
				if to.Text("port") != service.Text("spec", "ports", 0, "port") {
					t.Errorf("%s: %s has no port %s", o.Name(), service.Name(), to.Text("port"))
				}
			case "ScaledObject":
				to := o.Part("spec", "scaleTargetRef")
				target := Find(t, objects, to.Text("kind")+"/"+to.Text("name"))
				if target.Get("spec", "replicas") != nil || to.Text("apiVersion") != target.Text("apiVersion") {
					t.Errorf("%s and the chart both set the number of pods of %s", o.Name(), target.Name())
				}
			}
		}
	})
}

// selects checks that a selector finds pods with a port of a name.
func selects(t *testing.T, objects []Object, by Object, labels Object, port string) {
	t.Helper()
	for _, set := range selected(objects, labels) {
		for _, p := range set.Container().List("ports") {
			if p.Text("name") == port {
				return
			}
		}
	}
	t.Errorf("%s: no pod with the labels %v has a port %s", by.Name(), labels, port)
}

func selected(objects []Object, labels Object) (list []Object) {
	for _, set := range sets(objects) {
		have, matches := set.Part("spec", "template", "metadata", "labels"), len(labels) > 0
		for name, value := range labels {
			matches = matches && have[name] == value
		}
		if matches {
			list = append(list, set)
		}
	}
	return list
}

// TestChartPods are restricted as Kubernetes' profile of that name demands, are asked whether they are ready, and keep
// their journals.
func TestChartPods(t *testing.T) {
	kinds(t, func(t *testing.T, objects []Object) {
		for _, set := range sets(objects) {
			role, ready := "up", "[wakecall health --role server]"
			if strings.HasSuffix(set.Name(), "dispatcher") {
				role, ready = "dispatcher", "[wakecall health]"
			}
			for path, want := range map[string]string{
				"template.spec.automountServiceAccountToken":                          "false",
				"template.spec.enableServiceLinks":                                    "false",
				"template.spec.securityContext.runAsNonRoot":                          "true",
				"template.spec.securityContext.runAsUser":                             "65532",
				"template.spec.securityContext.fsGroup":                               "65532",
				"template.spec.securityContext.seccompProfile.type":                   "RuntimeDefault",
				"template.spec.containers.0.securityContext.allowPrivilegeEscalation": "false",
				"template.spec.containers.0.securityContext.readOnlyRootFilesystem":   "true",
				"template.spec.containers.0.securityContext.capabilities.drop":        "[ALL]",
				"template.spec.containers.0.command":                                  "[wakecall " + role + "]",
				"template.spec.containers.0.image":                                    "ghcr.io/wakecall/wakecall:0.1.0",
				"template.spec.containers.0.readinessProbe.exec.command":              ready,
				"template.spec.containers.0.livenessProbe.httpGet.path":               "/healthz",
				"template.spec.containers.0.livenessProbe.httpGet.port":               "metrics",
				"template.spec.containers.0.startupProbe.exec.command":                "[wakecall health]",
				"template.spec.topologySpreadConstraints.0.topologyKey":               "kubernetes.io/hostname",
				"podManagementPolicy":                                                 "Parallel",
				"persistentVolumeClaimRetentionPolicy.whenScaled":                     "Retain",
				"persistentVolumeClaimRetentionPolicy.whenDeleted":                    "Retain",
				"volumeClaimTemplates.0.metadata.name":                                "data",
				"volumeClaimTemplates.0.spec.accessModes":                             "[ReadWriteOnce]",
			} {
				if got := at(set.Part("spec"), path); got != want {
					t.Errorf("%s: %s is %q, want %q", set.Name(), path, got, want)
				}
			}
			if claims := set.Part("spec", "volumeClaimTemplates", 0); strings.Contains(fmt.Sprint(claims), "0.1.0") {
				t.Errorf("%s: a claim cannot change with the version: %v", set.Name(), claims)
			}
		}
	})
}

// at returns a member by a path with dots.
func at(o Object, path string) string {
	var parts []any
	for p := range strings.SplitSeq(path, ".") {
		if i, err := strconv.Atoi(p); err == nil {
			parts = append(parts, i)
			continue
		}
		parts = append(parts, p)
	}
	return o.Text(parts...)
}

// TestChartValues: each value has its effect.
func TestChartValues(t *testing.T) {
	t.Parallel()
	objects := rendered(t, `
image: {repository: registry.example.com/wakecall, tag: 0.2.0, pullPolicy: Always}
imagePullSecrets: [{name: pull}]
fullnameOverride: wc
replicas: 5
config: {redis: {nodes: ["redis://r1:6379/0"]}}
secrets:
  redisNodes: {name: ""}
  registryDSN: {name: mysql, key: dsn}
  firstToken: {name: ""}
persistence: {size: 100Gi, storageClass: fast, accessModes: [ReadWriteOncePod]}
resources: {limits: {memory: 4Gi}}
preStopSeconds: 0
dispatcher: {enabled: true, replicas: 4, persistence: {size: 5Gi}, resources: {limits: {memory: 1Gi}}}
service:
  api: {type: LoadBalancer, port: 80, annotations: {lb: internal}}
  admin: {port: 81}
  gateways: {type: NodePort}
gateways: {beanstalk: 11300}
networkPolicy:
  enabled: true
  api: [{podSelector: {}}]
  gateways: [{ipBlock: {cidr: 10.2.0.0/16}}]
  egress: [{ports: [{port: 53, protocol: UDP}]}]
podDisruptionBudget: {maxUnavailable: 50%}
serviceAccount: {create: false, name: other}
spread: ""
affinity: {nodeAffinity: {}}
nodeSelector: {disk: ssd}
tolerations: [{operator: Exists}]
priorityClassName: high
podAnnotations: {note: "1"}
podLabels: {team: shop}
extraVolumes: [{name: accounts, secret: {secretName: accounts}}]
extraVolumeMounts: [{name: accounts, mountPath: /run/wakecall/accounts}]
extraEnv: [{name: TZ, value: Europe/Berlin}]
`)
	pod := "template.spec."
	for name, values := range map[string]map[string]string{
		"StatefulSet/wc": {
			"replicas": "5", "volumeClaimTemplates.0.spec.resources.requests.storage": "100Gi",
			"volumeClaimTemplates.0.spec.storageClassName": "fast",
			"volumeClaimTemplates.0.spec.accessModes":      "[ReadWriteOncePod]",
			pod + "containers.0.image":                     "registry.example.com/wakecall:0.2.0",
			pod + "containers.0.imagePullPolicy":           "Always", pod + "imagePullSecrets.0.name": "pull",
			pod + "containers.0.resources.limits.memory": "4Gi", pod + "containers.0.resources.requests.cpu": "500m",
			pod + "containers.0.lifecycle": "", pod + "terminationGracePeriodSeconds": "45",
			pod + "serviceAccountName": "other", pod + "topologySpreadConstraints": "",
			pod + "affinity.nodeAffinity": "map[]", pod + "nodeSelector.disk": "ssd",
			pod + "tolerations.0.operator": "Exists", pod + "priorityClassName": "high",
			"template.metadata.annotations.note": "1", "template.metadata.labels.team": "shop",
			pod + "volumes.2.secret.secretName":           "accounts",
			pod + "containers.0.volumeMounts.3.mountPath": "/run/wakecall/accounts",
			pod + "containers.0.env.9.name":               "TZ",
			pod + "volumes.1.projected.sources.1.secret":  "map[items:[map[key:dsn path:registryDSN]] name:mysql]",
			pod + "volumes.1.projected.sources.3":         "",
		},
		"StatefulSet/wc-dispatcher": {
			"replicas": "4", "volumeClaimTemplates.0.spec.resources.requests.storage": "5Gi",
			pod + "containers.0.resources.limits.memory": "1Gi", pod + "terminationGracePeriodSeconds": "45",
		},
		"Service/wc":                        {"type": "LoadBalancer", "ports.0.port": "80", "ports.0.targetPort": "api"},
		"Service/wc-admin":                  {"type": "ClusterIP", "ports.0.port": "81", "sessionAffinity": "ClientIP"},
		"Service/wc-gateways":               {"type": "NodePort", "ports.0.port": "11300"},
		"PodDisruptionBudget/wc":            {"maxUnavailable": "50%"},
		"PodDisruptionBudget/wc-dispatcher": {"maxUnavailable": "50%"},
		"NetworkPolicy/wc": {
			"ingress.1.from": "[map[podSelector:map[]]]", "ingress.2.from": "",
			"ingress.4.from": "[map[ipBlock:map[cidr:10.2.0.0/16]]]", "egress.0.ports.0.port": "53",
		},
	} {
		o := Find(t, objects, name)
		for path, want := range values {
			if got := at(o.Part("spec"), path); got != want {
				t.Errorf("%s: %s is %q, want %q", name, path, got, want)
			}
		}
	}
	if slices.ContainsFunc(objects, func(o Object) bool { return o.Text("kind") == "ServiceAccount" }) {
		t.Error("a ServiceAccount is made against serviceAccount.create")
	}
}

// TestChartRestartsPodsForAConfiguration that changed, and for nothing else.
func TestChartRestartsPodsForAConfiguration(t *testing.T) {
	t.Parallel()
	sum := func(values string) string {
		set := Find(t, rendered(t, values), "StatefulSet/wakecall")
		return set.Text("spec", "template", "metadata", "annotations", "checksum/config")
	}
	first := sum("")
	if again := sum("replicas: 3"); again != first || first == "" {
		t.Errorf("the checksum is %q, and %q with more pods", first, again)
	}
	if changed := sum("config: {log: {level: debug}}"); changed == first {
		t.Error("another configuration has the same checksum")
	}
}

// TestChartRules: the rules for Prometheus are the mixin's, with their own templates.
func TestChartRules(t *testing.T) {
	t.Parallel()
	rule := Find(t, rendered(t, "prometheusRule: {enabled: true, labels: {release: prometheus}}"), "PrometheusRule/wakecall")
	if got := at(rule, "metadata.labels.release"); got != "prometheus" {
		t.Errorf("the label release is %q", got)
	}
	var want []any
	for _, kind := range []string{"rules", "alerts"} {
		b, err := os.ReadFile(filepath.Join("../../deploy/mixin/rendered", kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Groups []any }
		if err := yaml.Unmarshal(b, &file); err != nil {
			t.Fatal(err)
		}
		want = append(want, file.Groups...)
	}
	if got := rule.Get("spec", "groups"); len(want) < 2 || !reflect.DeepEqual(got, any(want)) {
		t.Errorf("the groups are\n%v, want\n%v", got, want)
	}
}
