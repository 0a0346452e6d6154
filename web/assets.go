package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// Assets are the files that pages load.
type Assets struct {
	names map[string]string // app.css → app.0123456789.css
	files map[string]asset  // by hashed name
}

type asset struct {
	kind  string
	plain func() []byte
	small func() []byte // gzip's, empty where it saves nothing
}

// LoadAssets reads the list of embedded assets. Each asset is read, and compressed, at its first request.
func LoadAssets() (*Assets, error) {
	a := &Assets{names: map[string]string{}, files: map[string]asset{}}
	manifest, err := dist.ReadFile("dist/manifest.json")
	if err != nil {
		return nil, fmt.Errorf("read the list of assets: %w", err)
	}
	if err := json.Unmarshal(manifest, &a.names); err != nil {
		return nil, fmt.Errorf("read the list of assets: %w", err)
	}
	for _, name := range a.names {
		if _, err := fs.Stat(dist, "dist/"+name); err != nil {
			return nil, fmt.Errorf("read the asset %s: %w", name, err)
		}
		plain := sync.OnceValue(func() []byte {
			text, _ := dist.ReadFile("dist/" + name) // it is there
			return text
		})
		small := sync.OnceValue(func() []byte { return compress(plain()) })
		a.files[name] = asset{kind: contentType(name), plain: plain, small: small}
	}
	return a, nil
}

// contentType does not use the machine's MIME tables, which differ.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

func compress(plain []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil
	}
	_, err = w.Write(plain)
	if err != nil || w.Close() != nil || b.Len() > len(plain)*9/10 {
		return nil
	}
	return b.Bytes()
}

// Name returns the hashed name of an asset, or "" if it does not exist.
func (a *Assets) Name(name string) string { return a.names[name] }

// Has reports whether there is an asset with a hashed name.
func (a *Assets) Has(hashed string) bool {
	_, ok := a.files[hashed]
	return ok
}

// ServeHTTP serves the asset that the last element of the path names. The name changes with the content, so browsers
// may cache it forever.
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a.files[path.Base(r.URL.Path)]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := f.plain()
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		if small := f.small(); small != nil {
			h.Set("Content-Encoding", "gzip")
			body = small
		}
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the browser has disconnected
	}
}
