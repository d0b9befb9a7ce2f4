package health

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxLabels bounds how many labels are kept of a page.
const maxLabels = 32

// A Page is what a page of metrics says about one engine. A router's page may be
// about several engines.
type Page struct {
	Kind     Kind
	Role     Role // empty if the page does not say
	Readings Readings

	// Labels are those that at least half of the series have, with one value only,
	// such as the model.
	Labels map[string]string
}

// ReadMetrics reads a page in Prometheus's text format, and skips series that it
// does not know. If the page is broken, it returns an error that says where, and
// what it has read up to there.
//
// Replicas in one process (dp_rank, engine) are added up. Of their memory usage the
// highest counts. Ranks of one replica report the same, and count once.
func ReadMetrics(page []byte) ([]Page, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(thin(page)))
	if err != nil {
		err = fmt.Errorf("health: page of metrics: %w", err)
	}
	r := reader{pages: make(map[string]*counting)}
	for name, f := range families {
		kind, means := kindOf(name), meanings(name)
		if kind == KindUnknown && means == nil {
			continue
		}
		for _, m := range f.GetMetric() {
			r.read(kind, means, f.GetType(), m)
		}
	}
	return r.result(), err
}

// thin drops the lines that nothing is read from, since they are most of a page and
// of the work to parse it: series that are not about a model server, descriptions,
// and buckets of histograms. It also drops what the parser refuses: exemplars, and
// second TYPE lines on pages that were put together of several.
func thin(page []byte) []byte {
	out := make([]byte, 0, len(page)/4)
	typed := make(map[string]bool)
	for line := range bytes.Lines(page) {
		name, isType := bytes.CutPrefix(line, []byte("# TYPE "))
		if i := bytes.IndexAny(name, "{ \t\n"); i >= 0 {
			name = name[:i]
		}
		switch {
		case bytes.HasPrefix(line, []byte("#")) && !isType, bytes.HasSuffix(name, []byte("_bucket")):
			continue
		case kindOf(string(name)) == KindUnknown && names[string(name)] == nil:
			continue
		case isType && typed[string(name)]:
			continue
		case isType:
			typed[string(name)] = true
		}
		if i := bytes.LastIndex(line, []byte(" # {")); i >= 0 {
			line = append(line[:i:i], '\n')
		}
		out = append(out, line...)
	}
	return out
}

// A reader sorts series by the pages that they belong to.
type reader struct {
	pages map[string]*counting // by the kind and role
	start map[rank]float64     // when the process started: that series has no engine's labels
}

// A rank is one process of one replica.
type rank struct{ replica, rank string }

// counting adds up the readings of one page.
type counting struct {
	kind   Kind
	role   Role
	values map[Metric]map[rank]float64
	labels map[string]string // "" where there are several values
	seen   map[string]int    // in how many series
	series int
}

func (r *reader) read(kind Kind, meanings []meaning, t dto.MetricType, m *dto.Metric) {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	if labels["priority"] != "" {
		return // it is counted in the series with an empty priority
	}
	v, ok := value(t, m)
	at := rank{labels["dp_rank"] + "/" + labels["engine"],
		labels["pp_rank"] + "/" + labels["tp_rank"] + "/" + labels["moe_ep_rank"]}
	if kind == KindUnknown {
		if ok {
			if r.start == nil {
				r.start = make(map[rank]float64)
			}
			r.start[at] = max(r.start[at], v)
		}
		return
	}
	role := Role(labels["engine_type"])
	if kind == KindGateway {
		role = RoleRouter
	}
	key := string(kind) + "/" + string(role)
	c := r.pages[key]
	if c == nil {
		c = &counting{
			kind: kind, role: role, values: make(map[Metric]map[rank]float64),
			labels: make(map[string]string), seen: make(map[string]int),
		}
		r.pages[key] = c
	}
	for _, mean := range meanings {
		if !ok || mean.label != "" && labels[mean.label] != mean.value {
			continue
		}
		at := at
		if kind == KindGateway && mean.metric == MetricActive {
			at.replica += "/" + labels["worker"]
		}
		if c.values[mean.metric] == nil {
			c.values[mean.metric] = make(map[rank]float64)
		}
		c.values[mean.metric][at] += v
	}
	c.series++
	for name, v := range labels {
		c.seen[name]++
		switch name {
		case "le", "quantile", "tp_rank", "pp_rank", "moe_ep_rank", "dp_rank", "engine", "priority", "engine_type":
			continue
		}
		if was, there := c.labels[name]; there && was != v {
			v = ""
		}
		c.labels[name] = v
	}
}

// value returns the value of a series, or the number of observations.
func value(t dto.MetricType, m *dto.Metric) (float64, bool) {
	var v float64
	switch t {
	case dto.MetricType_COUNTER:
		v = m.GetCounter().GetValue()
	case dto.MetricType_GAUGE:
		v = m.GetGauge().GetValue()
	case dto.MetricType_UNTYPED:
		v = m.GetUntyped().GetValue()
	case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
		v = float64(m.GetHistogram().GetSampleCount())
	case dto.MetricType_SUMMARY:
		v = float64(m.GetSummary().GetSampleCount())
	}
	return v, sane(v)
}

func (r *reader) result() []Page {
	var pages []Page
	for _, c := range r.pages {
		p := Page{Kind: c.kind, Role: c.role, Readings: make(Readings), Labels: make(map[string]string)}
		for m, ranks := range c.values {
			p.Readings[m] = total(m, ranks)
		}
		for _, at := range r.start {
			p.Readings[MetricStartTime] = max(p.Readings[MetricStartTime], at)
		}
		for _, name := range slices.Sorted(maps.Keys(c.labels)) {
			if v := c.labels[name]; v != "" && 2*c.seen[name] >= c.series && len(p.Labels) < maxLabels {
				p.Labels[name] = v
			}
		}
		pages = append(pages, p)
	}
	slices.SortFunc(pages, func(a, b Page) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Role, b.Role))
	})
	return pages
}

// total makes one value of those of all ranks and replicas.
func total(m Metric, ranks map[rank]float64) float64 {
	replicas := make(map[string]float64)
	for at, v := range ranks {
		replicas[at.replica] = max(replicas[at.replica], v)
	}
	sum, most := 0.0, 0.0
	for _, v := range replicas {
		sum += v
		most = max(most, v)
	}
	switch m {
	case MetricKVUsage, MetricStartTime:
		return most
	case MetricActive:
		// With prefill and decode apart a router counts each request twice.
		return most
	}
	return sum
}
