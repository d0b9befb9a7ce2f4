package health

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Difference is a setting that was another in a better run.
type Difference struct {
	Where string `json:"where"` // a server's name, "client", "environment" or "neverhang"
	What  string `json:"what"`
	Good  string `json:"good"` // empty if it was not there
	Bad   string `json:"bad"`  // likewise

	// Suspicion is how likely it is the cause, from 0 to 100 by rule of thumb.
	Suspicion int `json:"suspicion"`

	// Why is what the setting decides, if that is known.
	Why string `json:"why,omitempty"`

	// Hidden reports that a short benchmark does not show the effect: it comes
	// with long contexts, over time, or when something fails.
	Hidden bool `json:"hidden,omitempty"`
}

func (d Difference) String() string {
	was, is := d.Good, d.Bad
	if was == "" {
		was = "not there"
	}
	if is == "" {
		is = "not there"
	}
	s := fmt.Sprintf("%s: %s was %s, is %s", d.Where, d.What, was, is)
	if d.Why != "" {
		s += " (" + d.Why + ")"
	}
	if d.Hidden {
		s += " [a short benchmark would not show it]"
	}
	return s
}

// A suspect is a pattern of names of settings, and what a change of them may do.
type suspect struct {
	name      *regexp.Regexp
	suspicion int
	hidden    bool
	why       string
}

// suspects are in order: the first one that matches a name counts.
var suspects = []suspect{
	{rx(`last_gen_throughput|internal_states|^start_time$|uptime|load$|\bload\b|avg_|_ts$|timestamp|random_seed|\bpid\b|\bport$|_ports?\b|tokenizer_worker|is_sleeping|expires_at|total_prefilled|step_time`), 0, false, "changes by itself"},
	{rx(`^log_|log_level|log_requests|^show_|banner|metrics_interval`), 10, false, ""},
	{rx(`attention_backend|attention.*backend|flashinfer|flash_attn|use_mla|mla_|page_size|block_size|swa_|sliding`), 95, true, "how attention is computed: short prompts pass where long contexts are wrong, hang or never end"},
	{rx(`rope|yarn|context_len|max_model_len|n_ctx|max_position|model_max_length`), 90, true, "how long contexts may be, and how they are computed"},
	{rx(`chunked_prefill|max_prefill_tokens|max_num_batched_tokens|prefill_max|mixed_chunk`), 85, true, "how long prompts are cut: it decides on waiting times and memory with long contexts"},
	{rx(`disagg|bootstrap|transfer|kv_connector|mooncake|nixl|ib_device`), 85, true, "how prefill hands over to decode: what is wrong there shows under load, or after a restart"},
	{rx(`kv_cache_dtype|kv_dtype|cache_type_k|cache_type_v`), 80, true, "the precision of keys and values, which long contexts feel first"},
	{rx(`cuda_graph|enforce_eager|compile|graph_max`), 75, true, "which batch sizes are fast: a benchmark may never reach the others"},
	{rx(`mem_fraction|gpu_memory_utilization|max_total_num_tokens|max_total_tokens|num_gpu_blocks|swap_space|cpu_offload|hicache|hierarchical`), 75, true, "how much memory there is for keys and values, which is only used up under load"},
	{rx(`max_running|max_num_seqs|max_batch|total_slots|max_concurrent|parallel_slots|n_parallel`), 75, true, "how many answers are computed at a time"},
	{rx(`max_queue|queue_size|max_queued|num_queued|retry|circuit|cb_|timeout|watchdog|^Clocks\.`), 65, true, "what happens when there is too much, or something fails"},
	{rx(`speculative|draft|eagle|mtp|lookahead`), 70, true, "answers that are guessed ahead, which helps or hurts by the text"},
	{rx(`schedul|policy|priority|conservativ|overlap`), 65, true, "in which order requests are computed"},
	{rx(`radix|prefix_cach|enable_cache|cache_reuse`), 65, true, "whether prompts that begin alike are computed once"},
	{rx(`quantiz|dtype|weight|load_format|revision`), 70, false, "what the model's weights are"},
	{rx(`model_path|served_model|model_id|tokenizer|chat_template|reasoning_parser|tool_call_parser|\bmodels?\b`), 70, false, "what the model is and how it is spoken to"},
	{rx(`(^|\.)(tp|dp|pp|ep)_size|tensor_parallel|data_parallel|pipeline|expert|nnodes|moe`), 65, false, "how the model is spread"},
	{rx(`grammar|structured|guided`), 50, true, "how answers are held to a form"},
	{rx(`^kind$|^role$`), 100, false, "it is another server"},
	{rx(`version|build_info|commit`), 80, true, "other software"},
	{rx(`nccl|cuda|torch|gloo|triton|hsa|rocm`), 60, true, "libraries below the engine"},
}

func rx(s string) *regexp.Regexp { return regexp.MustCompile(`(?i)` + s) }

// Compare lists what has changed since a better run, the most suspicious first.
// A server is compared with the one of the same name, or else of the same address
// or role. Variables of the environment are compared if both runs asked for them.
// What may be a secret is hidden, even if a fingerprint has it in the clear.
func Compare(good, bad Fingerprint) []Difference {
	var list differences
	pairs, gone, fresh := pair(good.Servers, bad.Servers)
	for _, p := range pairs {
		list.servers(p[0], p[1])
	}
	for _, s := range gone {
		list = append(list, Difference{Where: s.Name, What: "server", Good: tidy(mask(s.URL)), Suspicion: 90, Why: "it is not there any more, or did not answer"})
	}
	for _, s := range fresh {
		list = append(list, Difference{Where: s.Name, What: "server", Bad: tidy(mask(s.URL)), Suspicion: 60, Why: "it was not there"})
	}
	list = append(list, starts(pairs)...)
	list.setting("neverhang", "version", good.Neverhang, bad.Neverhang)
	list.setting("client", "go", good.Go, bad.Go)
	list.settings("client", good.Client, bad.Client)
	for k, was := range good.Env {
		// One that was asked for in one run alone may have been there in both.
		if is, asked := bad.Env[k]; asked {
			list.setting("environment", k, was, is)
		}
	}
	for i := range list {
		// Changes on our side seldom make a server hang.
		if d := &list[i]; d.Where == "client" || d.Where == "neverhang" {
			d.Suspicion = d.Suspicion * 2 / 3
		}
	}
	slices.SortFunc(list, func(a, b Difference) int {
		return cmp.Or(b.Suspicion-a.Suspicion, cmp.Compare(a.Where, b.Where), cmp.Compare(a.What, b.What))
	})
	return list
}

// differences are those found so far.
type differences []Difference

// servers compares a server with itself as it was.
func (list *differences) servers(was, is Server) {
	where := is.Name
	list.setting(where, "kind", string(was.Kind), string(is.Kind))
	list.setting(where, "role", string(was.Role), string(is.Role))
	if was.Info["version"] == "" || is.Info["version"] == "" {
		list.setting(where, "version", was.Version, is.Version)
	}
	list.setting(where, "models", strings.Join(was.Models, " "), strings.Join(is.Models, " "))
	list.setting(where, "metrics", fmt.Sprint(was.Metrics), fmt.Sprint(is.Metrics))
	list.settings(where, was.Labels, is.Labels)
	list.settings(where, was.Info, is.Info)
}

// settings compares all settings that were or are there.
func (list *differences) settings(where string, was, is map[string]string) {
	all := maps.Clone(was)
	if all == nil {
		all = is
	} else {
		maps.Copy(all, is)
	}
	for what := range all {
		list.setting(where, what, was[what], is[what])
	}
}

// setting compares one.
func (list *differences) setting(where, what, was, is string) {
	was, is = shownSetting(what, was), shownSetting(what, is)
	if was == is {
		return
	}
	d := Difference{Where: where, What: what, Good: was, Bad: is, Suspicion: 30}
	for _, s := range suspects {
		if s.name.MatchString(what) {
			d.Suspicion, d.Why, d.Hidden = s.suspicion, s.why, s.hidden
			break
		}
	}
	if was == hidden || is == hidden {
		d.Suspicion = min(d.Suspicion, 20)
	}
	if d.Suspicion > 0 {
		*list = append(*list, d)
	}
}

// shownSetting is the value of a setting, without what may be secret: others may
// have made the fingerprint. It is empty if the setting was not set.
func shownSetting(what, value string) string {
	if value = hide(what, value); value == unset {
		return ""
	}
	return value
}

// pair finds which servers of two runs are the same.
func pair(good, bad []Server) (pairs [][2]Server, gone, fresh []Server) {
	left := slices.Clone(good)
	find := func(same func(a Server) bool) int { return slices.IndexFunc(left, same) }
	for _, b := range bad {
		i := find(func(a Server) bool { return a.Name == b.Name && a.Role == b.Role })
		if i < 0 {
			i = find(func(a Server) bool { return a.URL == b.URL })
		}
		if i < 0 {
			i = find(func(a Server) bool { return a.Role == b.Role })
		}
		if i < 0 {
			fresh = append(fresh, b)
			continue
		}
		pairs = append(pairs, [2]Server{left[i], b})
		left = slices.Delete(left, i, i+1)
	}
	return pairs, left, fresh
}

// starts lists the servers that were restarted. If some were restarted and others
// not, that is the most suspicious of all changes. If all were, it is normal.
func starts(pairs [][2]Server) []Difference {
	var again, same []Server
	for _, p := range pairs {
		a, b := p[0].Started, p[1].Started
		switch {
		case p[1].Role == RoleRouter || a.IsZero() || b.IsZero():
		case p[0].URL != p[1].URL: // another process anyway
		case b.Sub(a) > 2*time.Second:
			again = append(again, p[1])
		default:
			same = append(same, p[1])
		}
	}
	var out []Difference
	for _, s := range again {
		d := Difference{Where: s.Name, What: "process started", Bad: s.Started.Format(time.DateTime), Suspicion: 25, Why: "it was restarted"}
		for _, p := range pairs {
			if p[1].Name == s.Name {
				d.Good = p[0].Started.Format(time.DateTime)
			}
		}
		if len(same) > 0 {
			d.Suspicion, d.Hidden = 98, true
			d.Why = "it was restarted alone, and " + same[0].Name + " was not: what that one holds belongs to the process that is gone"
		}
		out = append(out, d)
	}
	return out
}
