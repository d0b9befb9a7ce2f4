package health

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Detect finds out which software a server runs. It asks free questions only: none
// makes a token, and none costs money. A nil httpClient means one that opens a new
// connection for each question, and honours HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
//
// It asks a dozen questions at most, those that most servers know first. Each takes
// 3 s at most, and all end with ctx. A server that does not answer is no error: its
// Kind is [KindUnknown], and Asked tells how far the questions came. An error names
// a bad field of the target.
func Detect(ctx context.Context, t Target, httpClient *http.Client) (Server, error) {
	list, err := places([]Target{t})
	if err != nil {
		return Server{}, fmt.Errorf("health: %w", err)
	}
	srv, _ := newAsker(httpClient).detect(ctx, list[0], defaultTimeout)
	return srv, nil
}

// heard are the answers of one visit, by address, so that no question is asked
// twice in it.
type heard map[string]answer

// detection is what is known after the questions so far.
type detection struct {
	*asker
	p     *place
	limit time.Duration

	mu      sync.Mutex
	srv     Server
	answers map[string]answer // by path
	heard   heard
	speaks  bool // it lists its models as OpenAI's API does
}

func (a *asker) detect(ctx context.Context, p *place, limit time.Duration) (Server, heard) {
	d := &detection{asker: a, p: p, limit: limit, answers: make(map[string]answer), heard: make(heard)}
	d.run(ctx)
	return d.srv, d.heard
}

func (d *detection) run(ctx context.Context) {
	p := d.p
	d.srv = Server{Name: p.Name, URL: p.public, Role: p.Role}
	if kind := hosted(p.host); kind != KindUnknown {
		// Nothing else can be found out, and the machines are not the user's.
		d.srv.Kind = kind
		d.ask(ctx, "/models")
		d.models()
		return
	}
	d.ask(ctx, "/metrics", "/models")
	d.models()
	d.metrics()
	if d.srv.Kind == KindUnknown && d.reached() {
		d.ask(ctx, "/workers", "/version", "/model_info", "/props", "/api/version", "/info", "/health/liveliness")
		d.guess()
	}
	d.more(ctx)
	if d.srv.Kind == KindUnknown && d.speaks {
		d.srv.Kind = KindCompatible
	}
	if d.srv.Role == "" && d.srv.Kind == KindGateway {
		d.srv.Role = RoleRouter
	}
	if d.srv.Role == "" {
		d.srv.Role = RoleUnified
	}
	slices.SortFunc(d.srv.Asked, func(a, b Question) int { return strings.Compare(a.Path, b.Path) })
}

// hosted knows public services by the names of their hosts.
func hosted(host string) Kind {
	switch host {
	case "openrouter.ai":
		return KindOpenRouter
	case "api.openai.com":
		return KindCompatible
	}
	return KindUnknown
}

// ask asks several questions at the same time.
func (d *detection) ask(ctx context.Context, paths ...string) {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	var wg sync.WaitGroup
	for _, path := range paths {
		wg.Go(func() {
			url := d.p.root + path
			switch path {
			case "/metrics":
				url = d.p.metrics
			case "/models":
				url = d.p.api + path
			}
			got := d.get(ctx, d.p, url)
			d.mu.Lock()
			defer d.mu.Unlock()
			d.answers[path], d.heard[url] = got, got
			d.srv.Asked = append(d.srv.Asked, Question{path, got.status, got.took, got.reach})
			if got.reach == ReachAnswered || d.srv.reach == ReachUnasked {
				d.srv.reach = got.reach
			}
		})
	}
	wg.Wait()
}

// json decodes an answer, and reports whether there was one of that form.
func (d *detection) json(path string, into any) bool {
	a := d.answers[path]
	return a.ok() && json.Unmarshal(a.body, into) == nil
}

func (d *detection) reached() bool {
	for _, a := range d.answers {
		if a.reach == ReachAnswered {
			return true
		}
	}
	return false
}

func (d *detection) models() {
	var list struct {
		Data []struct {
			ID    string `json:"id"`
			Owner string `json:"owned_by"`
		} `json:"data"`
	}
	if !d.json("/models", &list) || list.Data == nil {
		return
	}
	d.speaks = true
	for i, m := range list.Data {
		if i < 100 {
			d.srv.Models = append(d.srv.Models, tidy(m.ID))
		}
		if d.srv.Kind != KindUnknown {
			continue
		}
		switch m.Owner {
		case "sglang":
			d.srv.Kind = KindSGLang
		case "vllm":
			d.srv.Kind = KindVLLM
		case "llamacpp":
			d.srv.Kind = KindLlamaCPP
		case "library":
			d.srv.Kind = KindOllama
		}
	}
}

func (d *detection) metrics() {
	a := d.answers["/metrics"]
	if !a.ok() {
		return
	}
	pages, _ := ReadMetrics(a.body)
	for _, p := range pages {
		d.srv.Metrics = true
		if p.Kind == KindGateway || d.srv.Kind == KindUnknown || d.srv.Kind == KindSGLang && p.Kind != KindSGLang {
			d.srv.Kind = p.Kind
		}
		if d.srv.Role == "" && p.Role != "" && len(pages) == 1 {
			d.srv.Role = p.Role
		}
		if s := p.Readings[MetricStartTime]; s > 0 && s < 1e11 {
			d.srv.Started = time.UnixMilli(int64(s * 1000)).Add(-a.ahead).UTC()
		}
		for k, v := range p.Labels {
			if d.srv.Labels == nil {
				d.srv.Labels = make(map[string]string)
			}
			d.srv.Labels[tidy(k)] = hide(k, v)
		}
	}
}

// guess tells kinds apart by the questions that they answer.
func (d *detection) guess() {
	// Some sites answer every path with the same page.
	var any map[string]json.RawMessage
	var alive string
	switch {
	case d.json("/workers", &any) && any["workers"] != nil:
		d.srv.Kind = KindGateway
	case d.json("/health/liveliness", &alive):
		d.srv.Kind = KindLiteLLM
	case d.json("/props", &any) && (any["total_slots"] != nil || any["build_info"] != nil):
		d.srv.Kind = KindLlamaCPP
	case d.json("/info", &any) && any["model_id"] != nil:
		d.srv.Kind = KindTGI
	case d.json("/api/version", &any) && any["version"] != nil:
		d.srv.Kind = KindOllama
	case d.json("/model_info", &any) && any["model_path"] != nil:
		d.srv.Kind = KindSGLang
	case d.json("/version", &any) && any["version"] != nil:
		d.srv.Kind = KindVLLM
	}
}

// more asks the questions about itself that this kind of server knows.
func (d *detection) more(ctx context.Context) {
	has := func(path string) bool { _, there := d.answers[path]; return there }
	var paths []string
	switch d.srv.Kind {
	case KindSGLang:
		paths = []string{"/server_info", "/model_info"}
		if !d.srv.Metrics {
			paths = append(paths, "/workers") // it may be the router that answers for them
		}
	case KindGateway:
		paths = []string{"/workers"}
	case KindVLLM:
		paths = []string{"/version"}
	case KindLlamaCPP:
		paths = []string{"/props"}
	case KindOllama:
		paths = []string{"/api/version", "/api/ps"}
	case KindTGI:
		paths = []string{"/info"}
	case KindLiteLLM:
		paths = []string{"/health/readiness"}
	}
	paths = slices.DeleteFunc(paths, has)
	if len(paths) > 0 {
		d.ask(ctx, paths...)
	}
	if a := d.answers["/server_info"]; d.srv.Kind == KindSGLang && a.status == http.StatusNotFound {
		d.ask(ctx, "/get_server_info") // older
	}
	d.workers()
	d.info()
}

// workers reads which servers a router uses.
func (d *detection) workers() {
	var list struct {
		Workers []struct {
			URL     string `json:"url"`
			Type    string `json:"worker_type"`
			Healthy bool   `json:"is_healthy"`
		} `json:"workers"`
	}
	if !d.json("/workers", &list) || list.Workers == nil {
		return
	}
	d.srv.Kind = KindGateway
	d.srv.Role = RoleRouter
	for _, w := range list.Workers {
		if len(d.srv.Workers) == maxWorkers {
			break
		}
		role := Role(w.Type)
		if role != RolePrefill && role != RoleDecode {
			role = RoleUnified
		}
		d.srv.Workers = append(d.srv.Workers, Worker{tidy(mask(w.URL)), role, w.Healthy})
	}
}

// maxWorkers bounds how many servers behind a router are asked.
const maxWorkers = 32

// info reads the server's settings.
func (d *detection) info() {
	for _, path := range []string{"/server_info", "/get_server_info", "/model_info", "/version", "/props",
		"/api/version", "/info", "/health/readiness"} {
		a, there := d.answers[path]
		if !there || !a.ok() {
			continue
		}
		flat := flatten(a.body)
		if len(flat) == 0 {
			continue
		}
		if d.srv.Info == nil {
			d.srv.Info = make(map[string]string)
		}
		for k, v := range flat {
			if _, there := d.srv.Info[k]; !there && len(d.srv.Info) < maxInfo {
				d.srv.Info[k] = v
			}
		}
	}
	for _, key := range []string{"version", "build_info", "litellm_version"} {
		if v := d.srv.Info[key]; v != "" && d.srv.Version == "" {
			d.srv.Version = v
		}
	}
	if d.srv.Role == "" {
		switch d.srv.Info["disaggregation_mode"] {
		case "prefill":
			d.srv.Role = RolePrefill
		case "decode":
			d.srv.Role = RoleDecode
		}
	}
}
