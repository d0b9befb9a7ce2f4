package health

// A Metric is something that servers count or measure. It has one name here,
// whatever the server calls it.
type Metric string

// Gauges: the state of a server at one moment.
const (
	MetricRunning      Metric = "running"       // requests being computed
	MetricWaiting      Metric = "queue"         // requests that wait for that
	MetricPutOff       Metric = "put off"       // requests retracted for lack of memory
	MetricKVUsage      Metric = "memory"        // of keys and values, from 0 to 1
	MetricThroughput   Metric = "tokens/s"      // as the server has last worked it out
	MetricBootstrap    Metric = "bootstrap"     // prefill: wait for the handshake
	MetricInflight     Metric = "inflight"      // prefill: computed, and not yet handed over
	MetricPrealloc     Metric = "prealloc"      // decode: wait for a place
	MetricTransferring Metric = "transferring"  // decode: wait for keys and values
	MetricConnections  Metric = "connections"   // router: requests it has
	MetricActive       Metric = "active"        // router: requests with a worker
	MetricWorkersUp    Metric = "workers up"    // router
	MetricWorkers      Metric = "workers"       // router
	MetricStartTime    Metric = "started"       // of the process, in seconds since 1970
	MetricSlotTokens   Metric = "slots' tokens" // llama.cpp: made by the answers under way
)

// Counters: what a server has done since its process started.
const (
	MetricRequests        Metric = "requests"
	MetricFinished        Metric = "finished"
	MetricAborted         Metric = "aborted"
	MetricPreempted       Metric = "preempted" // put off for lack of memory
	MetricRejected        Metric = "rejected"
	MetricPromptTokens    Metric = "prompt tokens"   // of prompts, cached ones included
	MetricComputed        Metric = "computed tokens" // of prompts, as they are computed
	MetricGenerated       Metric = "generated tokens"
	MetricDecoded         Metric = "decoded tokens" // as they are made
	MetricSteps           Metric = "steps"
	MetricFirstTokens     Metric = "first tokens"
	MetricTransfers       Metric = "transfers"
	MetricTransferFailed  Metric = "transfers failed"
	MetricBootstrapFailed Metric = "handshakes failed"
	MetricErrors          Metric = "errors" // router: answers with 5xx
)

// work are the counters that move only when something is computed. Counters of
// arrivals and failures are not among them.
var work = []Metric{MetricComputed, MetricDecoded, MetricGenerated, MetricPromptTokens, MetricSteps,
	MetricFirstTokens, MetricTransfers, MetricFinished}

// stirs are the gauges that keep changing while a scheduler works.
var stirs = []Metric{MetricRunning, MetricWaiting, MetricPutOff, MetricKVUsage, MetricThroughput, MetricSlotTokens}

// Readings are the metrics of a server at one moment. Those that it does not have
// are missing.
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

// held is how many requests an engine has, in all states together.
func (r Readings) held() (float64, bool) {
	n, ok := r.sum(MetricRunning, MetricWaiting, MetricPutOff, MetricBootstrap, MetricInflight)
	if !ok {
		return 0, false
	}
	// Decode's transfers are prefill's in flight already.
	return n, true
}

// sane reports whether a value can be one: a count that is still exact.
func sane(v float64) bool { return v >= 0 && v < 1<<53 }
