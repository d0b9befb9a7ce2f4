package llmclient

import (
	"encoding/json"
	"strings"

	"github.com/neverhang/neverhang/chat"
)

// overheard judges an event of an answer that is not decoded. It returns nil for an
// event that is known to be only a sign of life or an announcement of work. Every
// other event is output.
func (n *answer) overheard(data []byte) *chat.Chunk {
	var e struct {
		Type    lenient[string]
		Choices lenient[[]map[string]json.RawMessage]
	}
	if json.Unmarshal(data, &e) != nil {
		return passedOn
	}
	switch kind := e.Type.is; {
	case kind == "ping", kind == "keepalive", kind == "keep-alive", kind == "heartbeat", strings.HasSuffix(kind, ".in_progress"):
		n.a.watch.tell((*meter).ping)
		return nil
	case strings.HasSuffix(kind, ".created"), strings.HasSuffix(kind, ".queued"):
		return nil
	}
	if len(e.Choices.is) == 0 {
		return passedOn
	}
	for _, c := range e.Choices.is {
		for name, value := range c {
			switch name {
			case "index", "logprobs":
			case "delta":
				if filled(value) {
					return passedOn
				}
			default:
				if !empty(value) {
					return passedOn
				}
			}
		}
	}
	return nil
}

// filled reports whether a delta holds more than names and labels.
func filled(delta json.RawMessage) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(delta, &members) != nil {
		return !empty(delta)
	}
	for name, value := range members {
		if name != "role" && name != "type" && !empty(value) {
			return true
		}
	}
	return false
}

func empty(value json.RawMessage) bool {
	switch string(value) {
	case "null", `""`, "[]", "{}":
		return true
	}
	return false
}
