package engine

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// label writes a label. Its value is escaped as the format wants it.
func label(name, value string) string { return name + `="` + escape.Replace(value) + `"` }

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// A page is a page of metrics in Prometheus's text format. Each family stands
// there once, with the series of all sides.
type page struct {
	families []*family
	byName   map[string]*family
	at       *family // the one that is being written

	prefix string
	labels string
}

// A family is all series of one name.
type family struct {
	name, kind string
	series     strings.Builder
}

func (p *page) family(name, kind string) {
	name = p.prefix + name
	if p.at = p.byName[name]; p.at == nil {
		p.at = &family{name: name, kind: kind}
		if p.byName == nil {
			p.byName = make(map[string]*family)
		}
		p.byName[name] = p.at
		p.families = append(p.families, p.at)
	}
}

// value writes a series of the family begun last.
func (p *page) value(name, more string, v float64) {
	labels := p.labels
	if more != "" && labels != "" {
		labels += ","
	}
	if labels += more; labels != "" {
		labels = "{" + labels + "}"
	}
	p.at.series.WriteString(p.prefix + name + labels + " " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}

func (p *page) gauge(name string, v float64) {
	p.family(name, "gauge")
	p.value(name, "", v)
}

func (p *page) counter(name string, v int) {
	p.family(name, "counter")
	p.value(name, "", float64(v))
}

func (p *page) histogram(name string, h Histogram) {
	p.family(name, "histogram")
	sum := uint64(0)
	for i, bound := range h.Bounds {
		sum += h.Counts[i]
		p.value(name+"_bucket", `le="`+strconv.FormatFloat(bound, 'g', -1, 64)+`"`, float64(sum))
	}
	p.value(name+"_bucket", `le="+Inf"`, float64(h.Count))
	p.value(name+"_sum", "", h.Sum)
	p.value(name+"_count", "", float64(h.Count))
}

func (p *page) send(w http.ResponseWriter) {
	var b strings.Builder
	for _, f := range p.families {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s", f.name, strings.ReplaceAll(f.name, "_", " "), f.name, f.kind, f.series.String())
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, b.String())
}

// metrics writes the page of some sides.
func (s *Server) metrics(w http.ResponseWriter, sides ...Side) {
	var p page
	for _, side := range sides {
		stats := s.Stats(side)
		if !s.cfg.NoStartTime && len(sides) == 1 {
			p.gauge("process_start_time_seconds", float64(s.start.Add(stats.Started).UnixMilli())/1000)
		}
		if s.cfg.Dialect == VLLM {
			s.vllmMetrics(&p, stats)
		} else {
			s.sglangMetrics(&p, side, stats)
		}
		p.prefix, p.labels = "", ""
	}
	p.send(w)
}

func (s *Server) sglangMetrics(p *page, side Side, st Stats) {
	kind := "unified"
	if s.cfg.Engine.Split != nil {
		kind = string(side)
	}
	p.prefix = "sglang:"
	p.labels = strings.Join([]string{
		label("engine_type", kind), label("model_name", s.cfg.Engine.Model),
		label("moe_ep_rank", "0"), label("pp_rank", "0"), label("tp_rank", "0"),
	}, ",")
	usage := ratio(st.Used, st.Memory)
	p.gauge("num_running_reqs", float64(st.Running))
	p.gauge("num_queue_reqs", float64(st.Queue))
	p.gauge("num_retracted_reqs", float64(st.Retracted))
	p.gauge("num_used_tokens", float64(st.Used))
	p.gauge("max_total_num_tokens", float64(st.Memory))
	p.gauge("token_usage", usage)
	p.gauge("full_token_usage", usage)
	p.gauge("gen_throughput", st.Throughput)
	p.gauge("cache_hit_rate", ratio(st.CachedTokens, st.PromptTokens))
	if s.cfg.Engine.Split != nil {
		if side == Prefill {
			p.gauge("num_prefill_bootstrap_queue_reqs", float64(st.Bootstrap))
			p.gauge("num_prefill_inflight_queue_reqs", float64(st.Inflight))
		} else {
			p.gauge("num_decode_prealloc_queue_reqs", float64(st.Preallocating))
			p.gauge("num_decode_transfer_queue_reqs", float64(st.Transferring))
		}
		p.counter("num_bootstrap_failed_reqs_total", st.BootstrapFailed)
		p.counter("num_transfer_failed_reqs_total", st.TransferFailed)
	}
	p.counter("num_requests_total", st.Requests)
	p.counter("num_aborted_requests_total", st.Aborted)
	p.counter("num_retracted_requests_total", st.Retractions)
	p.counter("prompt_tokens_total", st.PromptTokens)
	p.counter("generation_tokens_total", st.GenerationTokens)
	p.family("cached_tokens_total", "counter")
	p.value("cached_tokens_total", label("cache_source", "device"), float64(st.CachedTokens))
	p.family("realtime_tokens_total", "counter")
	p.value("realtime_tokens_total", label("mode", "prefill_compute"), float64(st.Computed))
	p.value("realtime_tokens_total", label("mode", "prefill_cache"), float64(st.CachedTokens))
	p.value("realtime_tokens_total", label("mode", "decode"), float64(st.GenerationTokens))
	p.histogram("time_to_first_token_seconds", st.FirstToken)
	p.histogram("inter_token_latency_seconds", st.BetweenTokens)
	p.histogram("e2e_request_latency_seconds", st.EndToEnd)
	p.histogram("queue_time_seconds", st.Queued)
	if s.cfg.Engine.Split != nil && side == Decode {
		p.histogram("kv_transfer_latency_ms", st.Moved)
	}
}

func (s *Server) vllmMetrics(p *page, st Stats) {
	p.prefix = "vllm:"
	p.labels = label("engine", "0") + "," + label("model_name", s.cfg.Engine.Model)
	queue := st.Queue + st.Retracted
	p.gauge("num_requests_running", float64(st.Running))
	p.gauge("num_requests_waiting", float64(queue))
	p.family("num_requests_waiting_by_reason", "gauge")
	p.value("num_requests_waiting_by_reason", label("reason", "capacity"), float64(queue))
	p.value("num_requests_waiting_by_reason", label("reason", "deferred"), 0)
	p.gauge("kv_cache_usage_perc", ratio(st.Used, st.Memory))
	p.counter("num_preemptions_total", st.Retractions)
	p.counter("prompt_tokens_total", st.PromptTokens)
	p.counter("generation_tokens_total", st.GenerationTokens)
	p.counter("prefix_cache_queries_total", st.PromptTokens)
	p.counter("prefix_cache_hits_total", st.CachedTokens)
	p.family("request_success_total", "counter")
	for _, how := range []Result{Stopped, Length, Aborted} {
		p.value("request_success_total", label("finished_reason", string(how)), float64(st.Finished[how]))
	}
	p.family("admission_rejections_total", "counter")
	p.value("admission_rejections_total", label("reason", "queue_full"), float64(st.Refused))
	p.histogram("time_to_first_token_seconds", st.FirstToken)
	p.histogram("inter_token_latency_seconds", st.BetweenTokens)
	p.histogram("e2e_request_latency_seconds", st.EndToEnd)
	p.histogram("request_queue_time_seconds", st.Queued)
	p.histogram("request_prefill_time_seconds", st.Prefilled)
	p.histogram("request_decode_time_seconds", st.Decoded)
}

// routerMetrics writes the page of the router.
func (s *Server) routerMetrics(w http.ResponseWriter) {
	front := s.Front()
	var p page
	if !s.cfg.NoStartTime {
		p.gauge("process_start_time_seconds", float64(s.start.Add(front.Started).UnixMilli())/1000)
	}
	p.prefix = "smg_"
	p.counter("http_requests_total", front.Requests)
	p.gauge("http_connections_active", float64(front.Waiting+front.Active))
	p.family("http_responses_total", "counter")
	errors := 0
	for _, how := range sorted(front.Ends) {
		code := statusOf(how)
		p.value("http_responses_total", label("path", "/v1/chat/completions")+","+label("status_code", strconv.Itoa(code))+","+label("error_code", errorCode(how)), float64(front.Ends[how]))
		if code != http.StatusOK {
			errors += front.Ends[how]
		}
	}
	p.counter("router_requests_total", front.Requests)
	p.counter("router_request_errors_total", errors)
	p.family("worker_pool_size", "gauge")
	p.value("worker_pool_size", "", float64(len(s.sides())))
	p.family("worker_health", "gauge")
	for _, side := range s.sides() {
		up := 1.0
		if s.state(side).down {
			up = 0
		}
		p.value("worker_health", label("worker", s.where(side)), up)
	}
	p.family("worker_requests_active", "gauge")
	for _, side := range s.sides() {
		p.value("worker_requests_active", label("worker", s.where(side)), float64(front.Active))
	}
	running, waiting := 0, 0
	for _, side := range s.sides() {
		st := s.Stats(side)
		running, waiting = running+st.Running, waiting+st.Queue
	}
	p.gauge("engine_running_requests", float64(running))
	p.gauge("engine_waiting_requests", float64(waiting))
	if s.cfg.Engine.Split != nil {
		pre := s.Stats(Prefill)
		p.counter("pd_bootstrap_failures_total", pre.BootstrapFailed)
		p.counter("pd_kv_transfer_failures_total", pre.TransferFailed)
	}
	p.send(w)
}

func statusOf(how Result) int {
	switch how {
	case Refused, Unready:
		return http.StatusServiceUnavailable
	case Limited, NoQuota:
		return http.StatusTooManyRequests
	case TooLong:
		return http.StatusBadRequest
	case Broken:
		return http.StatusBadGateway
	case Failed:
		return http.StatusInternalServerError
	case Left, Aborted:
		return 499
	}
	return http.StatusOK
}

func errorCode(how Result) string {
	if how.Useful() {
		return ""
	}
	return strings.ReplaceAll(string(how), "-", "_")
}

func ratio(part, whole int) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
