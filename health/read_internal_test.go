package health

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestReadSlots(t *testing.T) {
	tests := map[string]struct {
		body string
		want Readings
	}{
		"as now":        {`[{"id":0,"is_processing":true,"next_token":[{"n_decoded":17}]},{"id":1,"is_processing":false,"next_token":[{"n_decoded":99}]}]`, Readings{MetricRunning: 1, MetricSlotTokens: 17}},
		"older":         {`[{"id":0,"is_processing":true,"next_token":{"n_decoded":5}}]`, Readings{MetricRunning: 1, MetricSlotTokens: 5}},
		"at rest":       {`[{"id":0,"is_processing":false}]`, Readings{MetricRunning: 0, MetricSlotTokens: 0}},
		"no list":       {`{"error":"disabled"}`, nil},
		"strange ones":  {`[{"is_processing":true,"next_token":"x"},{"is_processing":true,"next_token":[{"n_decoded":-4}]}]`, Readings{MetricRunning: 2, MetricSlotTokens: 0}},
		"nothing there": {``, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, readSlots([]byte(tt.body))) })
	}
}

func FuzzReaders(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,"x\u0000",null,{"api_key":"sk-1"}]},"n":1e400}`))
	f.Add([]byte(`[{"id":0,"is_processing":true,"next_token":[{"n_decoded":17}]}]`))
	f.Add([]byte(strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for k, v := range flatten(b) {
			if !utf8.ValidString(k+v) || strings.ContainsAny(k+v, "\n\r\x00\x1b") {
				t.Errorf("%q: %q is not fit for a line", k, v)
			}
			if len(v) > maxText+10 {
				t.Errorf("%q has %d bytes", k, len(v))
			}
			if strings.HasSuffix(k, "api_key") && v != hidden && v != "" && v != "null" {
				t.Errorf("%q is told: %q", k, v)
			}
		}
		for m, v := range readSlots(b) {
			if !sane(v) {
				t.Errorf("%s is %v", m, v)
			}
		}
		var v map[string]any
		if json.Unmarshal(b, &v) != nil && len(flatten(b)) > 0 && !json.Valid(b) {
			// A value with something after it is read as far as it is one.
			dec := json.NewDecoder(strings.NewReader(string(b)))
			if dec.Decode(&v) != nil {
				t.Error("read what is no JSON")
			}
		}
	})
}

// A window keeps all that is recent, the very first, and less and less between.
func TestWindow(t *testing.T) {
	w := window{most: 20}
	for i := range 1000 {
		w.add(Sample{Status: i})
		if len(w.list) > w.most {
			t.Fatalf("%d samples, want at most %d", len(w.list), w.most)
		}
	}
	assert.Zero(t, w.list[0].Status)
	for i := 1; i < len(w.list); i++ {
		assert.Greater(t, w.list[i].Status, w.list[i-1].Status)
	}
	for i := range 10 {
		assert.Equal(t, 999-i, w.list[len(w.list)-1-i].Status)
	}
}
