package health

import (
	"encoding/json"
)

// readSlots reads llama.cpp's list of slots.
func readSlots(b []byte) Readings {
	var slots []struct {
		Busy bool            `json:"is_processing"`
		Next json.RawMessage `json:"next_token"`
	}
	if json.Unmarshal(b, &slots) != nil {
		return nil
	}
	r := Readings{MetricRunning: 0, MetricSlotTokens: 0}
	for _, s := range slots {
		if !s.Busy {
			continue
		}
		r[MetricRunning]++
		type next struct {
			Decoded float64 `json:"n_decoded"`
		}
		var list []next
		if json.Unmarshal(s.Next, &list) != nil {
			var one next // older
			_ = json.Unmarshal(s.Next, &one)
			list = []next{one}
		}
		for _, n := range list {
			if sane(n.Decoded) {
				r[MetricSlotTokens] += n.Decoded
			}
		}
	}
	return r
}
