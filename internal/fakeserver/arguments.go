package fakeserver

import (
	"encoding/json"
	"slices"

	"github.com/neverhang/neverhang/chat"
)

// arguments returns the arguments for each call of a tool that the author
// wants to make now: several only for reading.
func (p *part) arguments(tool string) []string {
	s := p.scene
	i := slices.IndexFunc(s.tools, func(t chat.Tool) bool { return t.Name == tool })
	var params schema
	if i >= 0 {
		_ = json.Unmarshal(s.tools[i].Parameters, &params)
	}
	switch tool {
	case toolRead:
		pages := s.unread()
		if len(pages) == 0 {
			pages = []page{{s.first(), 1}}
		}
		n := 1
		if !s.serial && s.choice.Name == "" {
			n = 1 + luckOf(p.author.Seed, "reads "+p.agent, 0).IntN(3)
		}
		var out []string
		for _, pg := range pages[:min(n, len(pages))] {
			given := map[string]any{params.pick("index", "integer", "number"): pg.index}
			if pg.page > 1 {
				given["page"] = pg.page
			}
			out = append(out, params.fill(given))
		}
		return out
	case toolWrite:
		return []string{params.fill(map[string]any{params.pick("text", "string"): writeArticle(s.readings)})}
	case toolAppend:
		text := writeNotes(s.readings)
		if !s.wrote {
			text = writeArticle(s.readings)
		}
		return []string{params.fill(map[string]any{params.pick("text", "string"): text})}
	}
	return []string{params.fill(nil)}
}

// first returns the first message of the task.
func (s *scene) first() int {
	if len(s.task.indexes) > 0 {
		return s.task.indexes[0]
	}
	return 0
}

// A schema is as much of a tool's JSON Schema as an author reads.
type schema struct {
	Properties map[string]struct {
		Type any   `json:"type"`
		Enum []any `json:"enum"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// pick returns the property to use for an argument: the one of that name, else
// the first required one of a fitting type, else the name.
func (s schema) pick(name string, types ...string) string {
	if _, there := s.Properties[name]; there {
		return name
	}
	for _, r := range s.Required {
		if typ, _ := s.Properties[r].Type.(string); slices.Contains(types, typ) {
			return r
		}
	}
	return name
}

// fill returns arguments as JSON, with something in all properties that are
// required.
func (s schema) fill(args map[string]any) string {
	if args == nil {
		args = map[string]any{}
	}
	for _, r := range s.Required {
		if _, there := args[r]; there {
			continue
		}
		p := s.Properties[r]
		switch {
		case len(p.Enum) > 0:
			args[r] = p.Enum[0]
		case p.Type == "integer" || p.Type == "number":
			args[r] = 0
		case p.Type == "boolean":
			args[r] = false
		case p.Type == "array":
			args[r] = []any{}
		case p.Type == "object":
			args[r] = map[string]any{}
		default:
			args[r] = "article"
		}
	}
	return string(encode(args))
}
