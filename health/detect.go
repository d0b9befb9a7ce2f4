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

// Detect finds out what a server is, by free questions only: nothing that
// makes a token, nothing that costs money. httpClient may be nil.
//
// It asks at most a dozen questions, first those that most servers know, each
// for 3 s at most, and ends with ctx at the latest. A server that does not
// answer is no error; its Kind then is Unknown and its Asked say how far the
// questions came. An error names a bad field of the target.
func Detect(ctx context.Context, t Target, httpClient *http.Client) (Server, error) {
	list, err := places([]Target{t})
	if err != nil {
		return Server{}, fmt.Errorf("health: %w", err)
	}
	srv, _ := newAsker(httpClient).detect(ctx, list[0], defaultTimeout)
	return srv, nil
}

// heard are the answers of one visit, by address, so that nothing is asked
// twice in it.
type heard map[string]answer

// detection is what has come of the questions so far.
type detection struct {
	*asker
	p     *place
	limit time.Duration

	mu      sync.Mutex
	srv     Server
	answers map[string]answer // by path
	heard   heard
	speaks  bool // it lists models as the dialect has it
}

func (a *asker) detect(ctx context.Context, p *place, limit time.Duration) (Server, heard) {
	d := &detection{asker: a, p: p, limit: limit, answers: make(map[string]answer), heard: make(heard)}
	d.run(ctx)
	return d.srv, d.heard
}

func (d *detection) run(ctx context.Context) {
	p := d.p
	d.srv = Server{Name: p.Name, URL: p.public, Role: p.Role}
	if kind := hosted(p.host); kind != Unknown {
		// There is nothing else to find, and these are others' machines.
		d.srv.Kind = kind
		d.ask(ctx, "/models")
		d.models()
		return
	}
	d.ask(ctx, "/metrics", "/models")
	d.models()
	d.metrics()
	if d.srv.Kind == Unknown && d.reached() {
		d.ask(ctx, "/workers", "/version", "/model_info", "/props", "/api/version", "/info", "/health/liveliness")
		d.guess()
	}
	d.more(ctx)
	if d.srv.Kind == Unknown && d.speaks {
		d.srv.Kind = Compatible
	}
	if d.srv.Role == "" && d.srv.Kind == Gateway {
		d.srv.Role = RoleRouter
	}
	if d.srv.Role == "" {
		d.srv.Role = RoleUnified
	}
	slices.SortFunc(d.srv.Asked, func(a, b Question) int { return strings.Compare(a.Path, b.Path) })
}

// hosted knows the services of others by their names.
func hosted(host string) Kind {
	switch host {
	case "openrouter.ai":
		return OpenRouter
	case "api.openai.com":
		return Compatible
	}
	return Unknown
}

// ask asks some questions at the same time.
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
			if got.reach == Reached || d.srv.reach == Unasked {
				d.srv.reach = got.reach
			}
		})
	}
	wg.Wait()
}

// json reads an answer that is an object.
func (d *detection) json(path string, into any) bool {
	a := d.answers[path]
	return a.ok() && json.Unmarshal(a.body, into) == nil
}

func (d *detection) reached() bool {
	for _, a := range d.answers {
		if a.reach == Reached {
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
		if d.srv.Kind != Unknown {
			continue
		}
		switch m.Owner {
		case "sglang":
			d.srv.Kind = SGLang
		case "vllm":
			d.srv.Kind = VLLM
		case "llamacpp":
			d.srv.Kind = LlamaCPP
		case "library":
			d.srv.Kind = Ollama
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
		if p.Kind == Gateway || d.srv.Kind == Unknown || d.srv.Kind == SGLang && p.Kind != SGLang {
			d.srv.Kind = p.Kind
		}
		if d.srv.Role == "" && p.Role != "" && len(pages) == 1 {
			d.srv.Role = p.Role
		}
		if s := p.Readings[StartTime]; s > 0 && s < 1e11 {
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

// guess tells kinds apart by which questions they know.
func (d *detection) guess() {
	// Some sites answer every path with the same page.
	var any map[string]json.RawMessage
	var alive string
	switch {
	case d.json("/workers", &any) && any["workers"] != nil:
		d.srv.Kind = Gateway
	case d.json("/health/liveliness", &alive):
		d.srv.Kind = LiteLLM
	case d.json("/props", &any) && (any["total_slots"] != nil || any["build_info"] != nil):
		d.srv.Kind = LlamaCPP
	case d.json("/info", &any) && any["model_id"] != nil:
		d.srv.Kind = TGI
	case d.json("/api/version", &any) && any["version"] != nil:
		d.srv.Kind = Ollama
	case d.json("/model_info", &any) && any["model_path"] != nil:
		d.srv.Kind = SGLang
	case d.json("/version", &any) && any["version"] != nil:
		d.srv.Kind = VLLM
	}
}

// more asks what the kind of server knows about itself.
func (d *detection) more(ctx context.Context) {
	has := func(path string) bool { _, there := d.answers[path]; return there }
	var paths []string
	switch d.srv.Kind {
	case SGLang:
		paths = []string{"/server_info", "/model_info"}
		if !d.srv.Metrics {
			paths = append(paths, "/workers") // it may be the router that answers for them
		}
	case Gateway:
		paths = []string{"/workers"}
	case VLLM:
		paths = []string{"/version"}
	case LlamaCPP:
		paths = []string{"/props"}
	case Ollama:
		paths = []string{"/api/version", "/api/ps"}
	case TGI:
		paths = []string{"/info"}
	case LiteLLM:
		paths = []string{"/health/readiness"}
	}
	paths = slices.DeleteFunc(paths, has)
	if len(paths) > 0 {
		d.ask(ctx, paths...)
	}
	if a := d.answers["/server_info"]; d.srv.Kind == SGLang && a.status == http.StatusNotFound {
		d.ask(ctx, "/get_server_info") // older
	}
	d.workers()
	d.info()
}

// workers reads which servers a router has behind it.
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
	d.srv.Kind = Gateway
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

// info reads what the server tells about its settings.
func (d *detection) info() {
	for _, path := range []string{"/server_info", "/get_server_info", "/model_info", "/version", "/props", "/api/version", "/info", "/health/readiness"} {
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
