package server

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // docs.html, docs.css
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"net/http"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/labstack/echo/v4"
)

//go:embed docs.html
var docsTemplate string

//go:embed docs.css
var docsStyle string

var htmlType = []string{"text/html; charset=utf-8"}

func (s *Server) docsPage(c echo.Context) error {
	h := c.Response().Header()
	h.Set(echo.HeaderCacheControl, "no-cache")
	h.Set(echo.HeaderContentSecurityPolicy, s.docsCSP)
	h.Set("Referrer-Policy", "no-referrer")
	return write(c, http.StatusOK, htmlType, s.docs)
}

// The page, as the template needs it.
type (
	docsView struct {
		Title, Version string
		Intro          []template.HTML
		Groups         []docsGroup
		Schemas        []docsSchema
		Style          template.CSS
	}
	docsGroup struct {
		Name        string
		Description template.HTML
		Routes      []docsRoute
	}
	docsRoute struct {
		Anchor, Method, Path, Summary string
		Text                          []template.HTML
		Parameters                    []docsField
		Body, Example                 string
		Answers                       []docsAnswer
	}
	docsField struct {
		Name, Where string
		Required    bool
		Type        template.HTML
		Text        template.HTML
	}
	docsAnswer struct {
		Status string
		Text   template.HTML
		Schema template.HTML
	}
	docsSchema struct {
		Name   string
		Type   template.HTML
		Text   template.HTML
		Fields []docsField
	}
)

// renderDocs makes the page of /docs and its content security policy, which allows nothing but the page's own style.
func renderDocs(source []byte, version string) (page []byte, policy string, err error) {
	var root any
	if err := yaml.UnmarshalWithOptions(source, &root, yaml.UseOrderedMap()); err != nil {
		return nil, "", fmt.Errorf("reading openapi.yaml: %w", err)
	}
	t, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, (&docsReader{root}).view(version)); err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256([]byte(docsStyle))
	policy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
	return out.Bytes(), policy, nil
}

// docsReader walks the document in the order in which it is written.
type docsReader struct{ root any }

// at follows keys through maps; nil when one is missing.
func at(node any, keys ...string) any {
	for _, key := range keys {
		var next any
		for _, item := range members(node) {
			if item.Key == key {
				next = item.Value
				break
			}
		}
		node = next
	}
	return node
}

func members(node any) yaml.MapSlice {
	m, _ := node.(yaml.MapSlice)
	return m
}

func text(node any) string {
	if node == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(node))
}

// resolve follows one $ref.
func (d *docsReader) resolve(node any) any {
	ref := text(at(node, "$ref"))
	if ref == "" {
		return node
	}
	return at(d.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
}

func (d *docsReader) view(version string) docsView {
	v := docsView{
		Title: text(at(d.root, "info", "title")), Version: version, Style: template.CSS(docsStyle), //nolint:gosec // embedded
		Intro: paragraphs(text(at(d.root, "info", "description"))),
	}
	tags, _ := at(d.root, "tags").([]any)
	for _, tag := range tags {
		v.Groups = append(v.Groups, d.group(tag))
	}
	for _, item := range members(at(d.root, "components", "schemas")) {
		v.Schemas = append(v.Schemas, d.schema(text(item.Key), item.Value))
	}
	return v
}

func (d *docsReader) group(tag any) docsGroup {
	g := docsGroup{Name: text(at(tag, "name")), Description: inline(text(at(tag, "description")))}
	for _, path := range members(at(d.root, "paths")) {
		shared, _ := at(path.Value, "parameters").([]any)
		for _, op := range members(path.Value) {
			tags, _ := at(op.Value, "tags").([]any)
			if len(tags) == 1 && text(tags[0]) == g.Name {
				g.Routes = append(g.Routes, d.route(text(op.Key), text(path.Key), op.Value, shared))
			}
		}
	}
	return g
}

func (d *docsReader) route(method, path string, op any, shared []any) docsRoute {
	r := docsRoute{
		Anchor: text(at(op, "operationId")), Method: strings.ToUpper(method), Path: path,
		Summary: text(at(op, "summary")), Text: paragraphs(text(at(op, "description"))),
	}
	own, _ := at(op, "parameters").([]any)
	for _, p := range append(append([]any{}, shared...), own...) {
		r.Parameters = append(r.Parameters, d.parameter(d.resolve(p)))
	}
	media := at(op, "requestBody", "content", "application/json")
	r.Body = strings.TrimPrefix(text(at(media, "schema", "$ref")), "#/components/schemas/")
	r.Example = jsonText(at(media, "example"))
	for _, a := range members(at(op, "responses")) {
		r.Answers = append(r.Answers, d.answer(text(a.Key), d.resolve(a.Value)))
	}
	return r
}

func (d *docsReader) parameter(p any) docsField {
	f := d.field(text(at(p, "name")), at(p, "schema"), text(at(p, "required")) == "true")
	f.Where = text(at(p, "in"))
	if own := text(at(p, "description")); own != "" {
		f.Text = inline(own)
	}
	return f
}

func (d *docsReader) answer(status string, a any) docsAnswer {
	out := docsAnswer{Status: status, Text: inline(text(at(a, "description")))}
	for _, media := range members(at(a, "content")) {
		if schema := at(media.Value, "schema"); schema != nil {
			out.Schema = d.typeOf(schema)
		}
	}
	return out
}

func (d *docsReader) schema(name string, node any) docsSchema {
	s := docsSchema{Name: name, Text: inline(text(at(node, "description"))), Type: d.typeOf(node)}
	needed, _ := at(node, "required").([]any)
	for _, p := range members(at(node, "properties")) {
		s.Fields = append(s.Fields, d.field(text(p.Key), p.Value, contains(needed, p.Key)))
	}
	return s
}

func contains(list []any, what any) bool {
	for _, v := range list {
		if v == what {
			return true
		}
	}
	return false
}

func (d *docsReader) field(name string, schema any, required bool) docsField {
	return docsField{
		Name: name, Required: required, Type: d.typeOf(schema), Text: inline(text(at(d.resolve(schema), "description"))),
	}
}

// typeOf describes a schema in a few words, with links to the named ones.
func (d *docsReader) typeOf(schema any) template.HTML {
	if name := strings.TrimPrefix(text(at(schema, "$ref")), "#/components/schemas/"); name != "" {
		return template.HTML(`<a href="#schema-` + html.EscapeString(name) + `">` + html.EscapeString(name) + `</a>`) //nolint:gosec // escaped
	}
	if one, ok := at(schema, "oneOf").([]any); ok {
		return d.joined(one)
	}
	if items := at(schema, "items"); items != nil {
		return "list of " + d.typeOf(items)
	}
	kind := text(at(schema, "type"))
	if several, ok := at(schema, "type").([]any); ok {
		kind = strings.Trim(fmt.Sprint(several), "[]")
		kind = strings.ReplaceAll(kind, " ", " or ")
	}
	if fixed := at(schema, "const"); fixed != nil {
		kind = jsonText(fixed)
	}
	return template.HTML(html.EscapeString(kind) + bounds(schema)) //nolint:gosec // escaped
}

func (d *docsReader) joined(schemas []any) template.HTML {
	var parts []string
	for _, s := range schemas {
		parts = append(parts, string(d.typeOf(s)))
	}
	return template.HTML(strings.Join(parts, " or ")) //nolint:gosec // each is escaped
}

// bounds are the limits of a schema, escaped.
func bounds(schema any) string {
	var out []string
	if values, ok := at(schema, "enum").([]any); ok {
		out = append(out, strings.Trim(strings.ReplaceAll(fmt.Sprint(values), " ", " | "), "[]"))
	}
	low, high := text(at(schema, "minimum")), text(at(schema, "maximum"))
	switch {
	case low != "" && high != "":
		out = append(out, low+" to "+high)
	case low != "":
		out = append(out, "from "+low)
	}
	if def := at(schema, "default"); def != nil {
		out = append(out, "default "+jsonText(def))
	}
	if len(out) == 0 {
		return ""
	}
	return html.EscapeString(" (" + strings.Join(out, "; ") + ")")
}

// jsonText writes a value of the document as JSON, in its order.
func jsonText(node any) string {
	switch v := node.(type) {
	case nil:
		return ""
	case yaml.MapSlice:
		parts := make([]string, 0, len(v))
		for _, item := range v {
			parts = append(parts, jsonText(text(item.Key))+": "+jsonText(item.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, 0, len(v))
		for _, item := range v {
			parts = append(parts, jsonText(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	b, err := json.Marshal(node)
	if err != nil {
		return text(node)
	}
	return string(b)
}

func paragraphs(s string) []template.HTML {
	var out []template.HTML
	for p := range strings.SplitSeq(s, "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, inline(p))
		}
	}
	return out
}

// inline renders the two bits of Markdown that the document uses: `code` and **strong**.
func inline(s string) template.HTML {
	s = html.EscapeString(strings.ReplaceAll(s, "\n", " "))
	s = paired(s, "`", "code")
	return template.HTML(paired(s, "**", "strong")) //nolint:gosec // escaped
}

func paired(s, mark, tag string) string {
	parts := strings.Split(s, mark)
	var b strings.Builder
	for i, part := range parts {
		switch {
		case i == 0:
		case i == len(parts)-1 && i%2 == 1:
			b.WriteString(mark) // one without a partner
		case i%2 == 1:
			b.WriteString("<" + tag + ">")
		default:
			b.WriteString("</" + tag + ">")
		}
		b.WriteString(part)
	}
	return b.String()
}
