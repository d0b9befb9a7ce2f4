package health

import (
	"encoding/json"
)

// readSlots reads what llama.cpp tells of its slots.
func readSlots(b []byte) Readings {
	var slots []struct {
		Busy bool            `json:"is_processing"`
		Next json.RawMessage `json:"next_token"`
	}
	if json.Unmarshal(b, &slots) != nil {
		return nil
	}
	r := Readings{Running: 0, SlotTokens: 0}
	for _, s := range slots {
		if !s.Busy {
			continue
		}
		r[Running]++
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
				r[SlotTokens] += n.Decoded
			}
		}
	}
	return r
}
