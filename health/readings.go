package health

// A Metric is something that servers count or measure, under one name whatever
// the server calls it.
type Metric string

// Gauges: how a server stands.
const (
	Running      Metric = "running"       // requests being computed
	Waiting      Metric = "queue"         // requests that wait for that
	PutOff       Metric = "put off"       // requests retracted for lack of memory
	KVUsage      Metric = "memory"        // of keys and values, from 0 to 1
	Throughput   Metric = "tokens/s"      // as the server has last worked it out
	Bootstrap    Metric = "bootstrap"     // prefill: wait for the handshake
	Inflight     Metric = "inflight"      // prefill: computed, and not yet handed over
	Prealloc     Metric = "prealloc"      // decode: wait for a place
	Transferring Metric = "transferring"  // decode: wait for keys and values
	Connections  Metric = "connections"   // router: requests it has
	Active       Metric = "active"        // router: requests with a worker
	WorkersUp    Metric = "workers up"    // router
	Workers      Metric = "workers"       // router
	StartTime    Metric = "started"       // of the process, in seconds since 1970
	SlotTokens   Metric = "slots' tokens" // llama.cpp: made by the answers under way
)

// Counters: what a server has done since it started.
const (
	Requests        Metric = "requests"
	Finished        Metric = "finished"
	Aborted         Metric = "aborted"
	Preempted       Metric = "preempted" // put off for lack of memory
	Rejected        Metric = "rejected"
	PromptTokens    Metric = "prompt tokens"   // of prompts, cached ones included
	Computed        Metric = "computed tokens" // of prompts, as they are computed
	Generated       Metric = "generated tokens"
	Decoded         Metric = "decoded tokens" // as they are made
	Steps           Metric = "steps"
	FirstTokens     Metric = "first tokens"
	Transfers       Metric = "transfers"
	TransferFailed  Metric = "transfers failed"
	BootstrapFailed Metric = "handshakes failed"
	Errors          Metric = "errors" // router: answers with 5xx
)

// work are the counters that move only when something is computed. Arrivals
// and failures show no work.
var work = []Metric{Computed, Decoded, Generated, PromptTokens, Steps, FirstTokens, Transfers, Finished}

// stirs are the gauges that a scheduler which works keeps changing.
var stirs = []Metric{Running, Waiting, PutOff, KVUsage, Throughput, SlotTokens}

// Readings are the metrics of a server at one moment. What it does not tell is
// not in them.
type Readings map[Metric]float64

func (r Readings) has(m Metric) bool { _, ok := r[m]; return ok }

// sum adds up the metrics that there are.
func (r Readings) sum(ms ...Metric) (total float64, ok bool) {
	for _, m := range ms {
		if v, has := r[m]; has {
			total, ok = total+v, true
		}
	}
	return total, ok
}

// held is how many requests an engine has in whatever state.
func (r Readings) held() (float64, bool) {
	n, ok := r.sum(Running, Waiting, PutOff, Bootstrap, Inflight)
	if !ok {
		return 0, false
	}
	// Decode's transfers are prefill's in flight already.
	return n, true
}

// sane reports whether a value can be one: a count that is still exact.
func sane(v float64) bool { return v >= 0 && v < 1<<53 }
