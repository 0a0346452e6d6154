// Command reference writes conf/wakecall.yaml, docs/reference/configuration.md and a part of the Helm chart's schema
// from the table of the configuration's keys. Run it with `go generate ./conf`.
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/conf"
)

func main() {
	log.SetFlags(0)
	list, err := files("..")
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range list {
		if err := os.WriteFile(filepath.Join("..", name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// files returns the generated files by their path in the repository.
func files(root string) (map[string]string, error) {
	keys := conf.Keys(app.GatewayKeys())
	schema, err := schemaOf(root, keys)
	return map[string]string{
		"conf/wakecall.yaml": yamlOf(keys), "docs/reference/configuration.md": markdownOf(keys), valuesSchema: schema,
	}, err
}

// sections explains sections of the configuration.
var sections = map[string]string{
	"server": "The HTTP API.",
	"admin":  "The web admin.",
	"admin.oidc": "Sign-in by an identity provider with OpenID Connect; docs/operations/sign-in.md has the steps for " +
		"Keycloak, Microsoft Entra ID and Google.",
	"registry": "The database of topics, shards, users and tokens. Secrets in it are encrypted.",
	"redis":    "The Redis deployments that hold the jobs.",
	"gateways": "Listeners that speak the protocols of other systems, so that their clients work unchanged. Each is " +
		"off while its address is empty. A port alone listens on this machine only: only lmstfy's protocol asks for " +
		"a password.",
}

const layers = "Flags override the environment, which overrides the file, which overrides the defaults. A key's " +
	"environment variable is WAKECALL_ and its path in capitals joined with _ (server.max_body: " +
	"WAKECALL_SERVER_MAX_BODY), its flag the path with dashes (--server-max-body). A variable with _FILE at its end " +
	"names a file with the value (WAKECALL_REGISTRY_DSN_FILE). An empty variable is a value: unset it for the " +
	"default. Unknown keys are errors.\n\n" +
	"Durations: 500ms, 90s, 30m, 168h. Sizes: 4096, 256KiB, 64MiB, 1GiB. Lists may be one value with commas.\n\n" +
	"A reload (SIGHUP, `systemctl reload wakecall`) applies changes. Keys that need a restart say so.\n"

// yamlOf returns the reference file: every key with its default and its help as a comment.
func yamlOf(keys []conf.Key) string {
	var b strings.Builder
	b.WriteString(wrap("Wakecall's configuration: every key with its default. Copy what you change to ./wakecall.yaml "+
		"or /etc/wakecall/wakecall.yaml, or name the file with --config FILE or WAKECALL_CONFIG.\n\n"+
		layers, "# ", 120))
	before := ""
	for _, k := range keys {
		opened := openedSections(before, k.Path)
		if depth(k.Path) == 0 || len(opened) > 0 && depth(opened[0]) == 0 {
			b.WriteString("\n")
		}
		for _, path := range opened {
			fmt.Fprintf(&b, "%s%s%s:\n", wrap(sections[path], indent(path)+"# ", 120), indent(path), lastPart(path))
		}
		empty := `""`
		if k.List() {
			empty = "[]"
		}
		fmt.Fprintf(&b, "%s%s%s: %s\n", wrap(helpOf(k), indent(k.Path)+"# ", 120), indent(k.Path), lastPart(k.Path),
			cmp.Or(k.Default, empty))
		before = k.Path
	}
	return b.String()
}

// markdownOf returns the reference page.
func markdownOf(keys []conf.Key) string {
	var b strings.Builder
	b.WriteString("# Configuration\n\n" + wrap("Wakecall reads the file of --config or WAKECALL_CONFIG, else "+
		"./wakecall.yaml or /etc/wakecall/wakecall.yaml. `wakecall config` prints the effective configuration and the "+
		"source of each value. [conf/wakecall.yaml](../../conf/wakecall.yaml) is this page as a file.\n\n"+
		layers+"\nA key without a default here is empty by default.\n", "", 100))
	before := ""
	for _, k := range keys {
		if section, _, _ := strings.Cut(k.Path, "."); !strings.HasPrefix(before, section+".") {
			fmt.Fprintf(&b, "\n## %s\n", section)
			if help := sections[section]; help != "" {
				b.WriteString("\n" + wrap(help, "", 100))
			}
		}
		if depth(k.Path) > 0 {
			fmt.Fprintf(&b, "\n### %s\n", k.Path)
		}
		value := ""
		if k.Default != "" {
			value = ", default `" + k.Default + "`"
		}
		help := example.ReplaceAllString(helpOf(k), "\n```\n$0```\n\n")
		fmt.Fprintf(&b, "\n`%s`%s\n\n%s", k.Env(), value, wrap(help, "", 100))
		before = k.Path
	}
	return b.String()
}

// example matches indented lines.
var example = regexp.MustCompile(`(?m)(^ .*\n)+`)

func helpOf(k conf.Key) string { return strings.TrimSpace(k.Summary() + ". " + k.Details()) }

// openedSections returns the sections of a path in which the key before was not.
func openedSections(before, path string) (list []string) {
	for i, r := range path {
		if r == '.' && !strings.HasPrefix(before, path[:i+1]) {
			list = append(list, path[:i])
		}
	}
	return list
}

func depth(path string) int { return strings.Count(path, ".") }

func indent(path string) string { return strings.Repeat("  ", depth(path)) }

func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// wrap breaks a text into lines that begin with a prefix and have at most width bytes. An indented line of the text
// stays as it is.
func wrap(text, prefix string, width int) string {
	var b strings.Builder
	for paragraph := range strings.Lines(text) {
		words := strings.Fields(paragraph)
		if strings.HasPrefix(paragraph, " ") || len(words) == 0 {
			words = []string{strings.TrimRight(paragraph, "\n")}
		}
		line := prefix + words[0]
		for _, word := range words[1:] {
			if len(line)+len(" ")+len(word) > width {
				b.WriteString(line + "\n")
				line = prefix + word
				continue
			}
			line += " " + word
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
