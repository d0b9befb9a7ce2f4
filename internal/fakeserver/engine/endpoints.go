package engine

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"
)

// state is what the endpoints need to know of the weather.
type state struct {
	down, silent, noMetrics bool
	workersDown             bool
}

func (s *Server) state(side Side) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUpLocked()
	c := s.core
	w := &c.weather
	st := state{silent: w.silent, noMetrics: w.noMetrics || s.cfg.NoMetrics}
	if side == Front {
		st.down, st.workersDown = c.allDown(), w.down[Decode] || w.down[Prefill]
		return st
	}
	st.down = w.down[side]
	return st
}

// router reports whether a router is what clients see.
func (s *Server) router() bool { return s.cfg.Engine.Router != nil || s.cfg.Engine.Split != nil }

// serve serves one request to a side.
func (s *Server) serve(side Side, w http.ResponseWriter, r *http.Request) {
	st := s.state(side)
	path := r.URL.Path
	completion := r.Method == http.MethodPost && strings.HasSuffix(path, "/chat/completions")
	switch {
	case st.down:
		panic(http.ErrAbortHandler)
	case completion && (side == Front || !s.router()):
		s.completion(w, r)
		return
	case st.silent:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	if side == Front && s.router() {
		s.serveRouter(st, w, r)
		return
	}
	if side == Front {
		side = Decode
	}
	s.serveEngine(side, st, w, r)
}

func (s *Server) serveEngine(side Side, st state, w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	sglang := s.cfg.Dialect == SGLang
	switch {
	case path == "/v1/models" && r.Method == http.MethodGet:
		s.models(w)
	case path == "/metrics":
		if st.noMetrics {
			http.NotFound(w, r)
			return
		}
		s.metrics(w, side)
	case path == "/ping":
		w.WriteHeader(http.StatusOK)
	case path == "/health" && (!sglang || s.cfg.PlainHealth):
		w.WriteHeader(http.StatusOK)
	case sglang && (path == "/health" || path == "/health_generate"):
		s.generateHealth(side, w, r)
	case sglang && (path == "/model_info" || path == "/get_model_info"):
		s.sendJSON(w, map[string]any{"model_path": s.cfg.Engine.Model, "is_generation": true})
	case sglang && (path == "/server_info" || path == "/get_server_info"):
		s.serverInfo(side, w, r)
	case !sglang && path == "/version":
		s.sendJSON(w, map[string]any{"version": s.cfg.Version})
	case !sglang && path == "/load":
		stats := s.Stats(side)
		s.sendJSON(w, map[string]any{"server_load": stats.Running + stats.Queue})
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) serveRouter(st state, w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/v1/models" && r.Method == http.MethodGet:
		s.models(w)
	case path == "/metrics":
		if st.noMetrics {
			http.NotFound(w, r)
			return
		}
		s.routerMetrics(w)
	case path == "/liveness":
		w.WriteHeader(http.StatusOK)
	case path == "/readiness" || path == "/health":
		// It knows of processes, not of progress.
		if st.workersDown {
			sendError(w, http.StatusServiceUnavailable, "service_unavailable_error", "", "No worker is available.")
			return
		}
		w.WriteHeader(http.StatusOK)
	case path == "/health_generate":
		s.generateHealth(Decode, w, r)
	case path == "/get_server_info" || path == "/server_info":
		s.serverInfo(Decode, w, r)
	case path == "/workers":
		s.workers(w)
	case path == "/engine_metrics":
		if st.noMetrics {
			http.NotFound(w, r)
			return
		}
		s.metrics(w, s.sides()...)
	default:
		http.NotFound(w, r)
	}
}

// sides returns the sides that have a scheduler.
func (s *Server) sides() []Side {
	if s.cfg.Engine.Split != nil {
		return []Side{Prefill, Decode}
	}
	return []Side{Decode}
}

func (s *Server) models(w http.ResponseWriter) {
	s.sendJSON(w, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.cfg.Engine.Model, "object": "model", "created": s.start.Unix(), "owned_by": string(s.cfg.Dialect),
		"max_model_len": s.cfg.Engine.Context,
	}}})
}

func (s *Server) workers(w http.ResponseWriter) {
	var list []any
	for _, side := range s.sides() {
		kind := string(side)
		if s.cfg.Engine.Split == nil {
			kind = "regular"
		}
		list = append(list, map[string]any{
			"url": s.where(side), "worker_type": kind, "is_healthy": !s.state(side).down, "load": s.Stats(side).Running,
		})
	}
	s.sendJSON(w, map[string]any{"workers": list, "total": len(list)})
}

// generateHealth makes a token, or waits for one that is made for somebody
// else. One that never comes stays in the scheduler's queue, as in SGLang.
func (s *Server) generateHealth(side Side, w http.ResponseWriter, r *http.Request) {
	const every, most = time.Second, 20 * time.Second
	asked := s.now()
	st := newStream()
	s.submit(Request{Probe: side, Key: uint64(asked), Prompt: []Segment{{Key: uint64(asked), Tokens: 1}}}, st)
	timer := time.NewTimer(every)
	defer timer.Stop()
	for waited := every; waited <= most; waited += every {
		select {
		case <-timer.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
		s.mu.Lock()
		s.catchUpLocked()
		heard := s.core.worker(side).heard
		s.mu.Unlock()
		if heard > asked {
			w.WriteHeader(http.StatusOK)
			return
		}
		timer.Reset(every)
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// serverInfo asks the scheduler, so it waits for one that stands still.
func (s *Server) serverInfo(side Side, w http.ResponseWriter, r *http.Request) {
	if !s.ask(r.Context(), side) {
		panic(http.ErrAbortHandler)
	}
	e := s.cfg.Engine
	stats := s.Stats(side)
	mode := "null"
	memory, slots := e.KVTokens, e.Slots
	if e.Split != nil {
		mode = string(side)
		if side == Prefill {
			memory, slots = e.Split.KVTokens, e.Split.Slots
		}
	}
	info := map[string]any{
		"model_path": e.Model, "served_model_name": e.Model, "version": s.cfg.Version,
		"context_length": e.Context, "max_running_requests": slots, "max_queued_requests": e.Queue,
		"max_total_num_tokens": memory, "chunked_prefill_size": e.Cost.Chunk, "disaggregation_mode": mode,
		"enable_metrics": !s.cfg.NoMetrics, "random_seed": e.Seed,
		"internal_states": []any{map[string]any{"last_gen_throughput": stats.Throughput}},
		"start_time":      s.start.Add(stats.Started).UTC().Format(time.RFC3339),
	}
	maps.Copy(info, s.cfg.Info)
	s.sendJSON(w, info)
}

func (s *Server) sendJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		sendError(w, http.StatusInternalServerError, "server_error", "", err.Error())
		return
	}
	sendRaw(w, http.StatusOK, b)
}
