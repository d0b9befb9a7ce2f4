package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// assemble joins chunks given as JSON.
func assemble(t testing.TB, chunks ...string) *chat.Response {
	t.Helper()
	var a chat.Assembler
	for _, in := range chunks {
		ch, err := chat.ParseChunk([]byte(in))
		require.NoError(t, err, in)
		a.Add(ch)
	}
	return a.Response()
}

// piece is a chunk with one piece of a tool call; "-" leaves a member out.
func piece(index, id, name, args string) string {
	return delta(`"tool_calls":[` + entry(index, id, name, args) + `]`)
}

func entry(index, id, name, args string) string {
	var all, fn []string
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	if index != "-" {
		all = append(all, `"index":`+index)
	}
	if id != "-" {
		all = append(all, `"id":`+quote(id))
	}
	if name != "-" {
		fn = append(fn, `"name":`+quote(name))
	}
	if args != "-" {
		fn = append(fn, `"arguments":`+quote(args))
	}
	return `{` + strings.Join(append(all, `"function":{`+strings.Join(fn, ",")+`}`), ",") + `}`
}

// pieces is a chunk with several pieces.
func pieces(entries ...string) string {
	return delta(`"tool_calls":[` + strings.Join(entries, ",") + `]`)
}

func TestAssembleToolCalls(t *testing.T) {
	f := chat.ToolCall{ID: "a", Name: "f", Arguments: `{"x":1}`}
	g := chat.ToolCall{ID: "b", Name: "g", Arguments: `{}`}
	anonymous := func(name, args string) chat.ToolCall { return chat.ToolCall{Name: name, Arguments: args} }

	for name, tc := range map[string]struct {
		chunks []string
		want   []chat.ToolCall
	}{
		"by the rules": {
			[]string{piece("0", "a", "f", ""), piece("0", "-", "-", `{"x"`), piece("0", "-", "-", `:1}`), piece("1", "b", "g", "-"), piece("1", "-", "-", `{}`)},
			[]chat.ToolCall{f, g},
		},
		"each piece is all there is so far": {
			[]string{piece("0", "a", "f", ""), piece("0", "-", "-", `{`), piece("0", "-", "-", `{"x"`), piece("0", "-", "-", `{"x":1}`)},
			[]chat.ToolCall{f},
		},
		"each piece is all there is so far, id and name too, and the last comes twice": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "a", "f", `{"x":1`), piece("0", "a", "f", `{"x":1}`), piece("0", "a", "f", `{"x":1}`), piece("1", "b", "g", `{}`)},
			[]chat.ToolCall{f, g},
		},
		"two calls, all so far in each chunk": {
			[]string{
				pieces(entry("0", "a", "f", `{"x`)),
				pieces(entry("0", "a", "f", `{"x":1}`), entry("1", "b", "g", `{`)),
				pieces(entry("0", "a", "f", `{"x":1}`), entry("1", "b", "g", `{}`)),
			},
			[]chat.ToolCall{f, g},
		},
		"an object within one that begins alike": {
			[]string{piece("0", "a", "f", `{"x":`), piece("0", "-", "-", `{"x":`), piece("0", "-", "-", `1}}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":{"x":1}}`}},
		},
		"cut while each piece was all so far": {
			[]string{piece("0", "a", "f", `{"x`), piece("0", "-", "-", `{"x":`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x{"x":`}},
		},
		"interleaved": {
			[]string{piece("0", "a", "f", ""), piece("1", "b", "g", ""), piece("0", "-", "-", `{"x"`), piece("1", "-", "-", `{}`), piece("0", "-", "-", `:1}`)},
			[]chat.ToolCall{f, g},
		},
		"several pieces in a chunk": {
			[]string{pieces(entry("0", "a", "f", `{"x"`), entry("1", "b", "g", `{`)), pieces(entry("1", "-", "-", `}`), entry("0", "-", "-", `:1}`))},
			[]chat.ToolCall{f, g},
		},
		"indices with gaps, out of order": {
			[]string{piece("7", "b", "g", "{}"), piece("2147483648", "a", "f", `{"x":1}`)},
			[]chat.ToolCall{g, f},
		},
		"indices from one": {
			[]string{piece("1", "a", "f", `{"x"`), piece("1", "-", "-", `:1}`)},
			[]chat.ToolCall{f},
		},
		"no index, whole calls in one chunk":  {[]string{pieces(entry("-", "a", "f", `{"x":1}`), entry("-", "b", "g", `{}`))}, []chat.ToolCall{f, g}},
		"no index, whole calls one per chunk": {[]string{piece("-", "a", "f", `{"x":1}`), piece("-", "b", "g", `{}`)}, []chat.ToolCall{f, g}},
		"no index, pieces by id": {
			[]string{piece("-", "a", "f", `{"x"`), piece("-", "b", "g", `{`), piece("-", "a", "-", `:1}`), piece("-", "b", "-", `}`)},
			[]chat.ToolCall{f, g},
		},
		"no index, pieces by order": {
			[]string{piece("-", "a", "f", `{"x"`), piece("-", "-", "-", `:1}`), piece("-", "b", "g", `{`), piece("-", "-", "-", `}`)},
			[]chat.ToolCall{f, g},
		},
		"no index, pieces by place": {
			[]string{pieces(entry("-", "a", "f", `{"x"`), entry("-", "b", "g", `{`)), pieces(entry("-", "-", "-", `:1}`), entry("-", "-", "-", `}`))},
			[]chat.ToolCall{f, g},
		},
		"no index, an unknown id without a name continues": {
			[]string{piece("-", "a", "f", `{"x"`), piece("-", "other", "-", `:1}`)},
			[]chat.ToolCall{f},
		},
		"no index, no ids, whole calls": {
			[]string{pieces(entry("-", "-", "f", `{"x":1}`), entry("-", "-", "g", `{}`)), pieces(entry("-", "-", "h", `{}`), entry("-", "-", "i", `{}`))},
			[]chat.ToolCall{anonymous("f", `{"x":1}`), anonymous("g", `{}`), anonymous("h", `{}`), anonymous("i", `{}`)},
		},
		"no index, no ids, the same tool twice in a chunk": {
			[]string{pieces(entry("-", "-", "f", `{"x":1}`), entry("-", "-", "f", `{"x":2}`))},
			[]chat.ToolCall{anonymous("f", `{"x":1}`), anonymous("f", `{"x":2}`)},
		},
		"no index, no ids, the same tool in two chunks": {
			[]string{piece("-", "-", "f", `{"x":1}`), piece("-", "-", "f", `{"x":2}`)},
			[]chat.ToolCall{anonymous("f", `{"x":1}`), anonymous("f", `{"x":2}`)},
		},
		"no index, no ids, no arguments": {
			[]string{piece("-", "-", "f", ``), piece("-", "-", "g", ``)},
			[]chat.ToolCall{anonymous("f", ``), anonymous("g", ``)},
		},
		"one index for all, ids differ": {[]string{piece("0", "a", "f", `{"x":1}`), piece("0", "b", "g", `{}`)}, []chat.ToolCall{f, g}},
		"one index for all, ids differ, no arguments": {
			[]string{piece("0", "a", "f", ""), piece("0", "b", "f", "")},
			[]chat.ToolCall{{ID: "a", Name: "f"}, {ID: "b", Name: "f"}},
		},
		"one index for all, pieces": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "-", "-", `:1}`), piece("0", "b", "g", `{`), piece("0", "-", "-", `}`)},
			[]chat.ToolCall{f, g},
		},
		"one index for all, empty ids": {
			[]string{piece("0", "", "f", `{"x":1}`), piece("0", "", "g", `{}`), piece("0", "", "h", ``)},
			[]chat.ToolCall{anonymous("f", `{"x":1}`), anonymous("g", `{}`), anonymous("h", ``)},
		},
		"one index for all, empty ids, in one chunk": {
			[]string{pieces(entry("0", "", "f", ``), entry("0", "", "g", ``), entry("0", "", "g", ``))},
			[]chat.ToolCall{anonymous("f", ``), anonymous("g", ``), anonymous("g", ``)},
		},
		"one index for all, another tool before the first is whole": {
			[]string{piece("0", "", "f", `{"x":`), piece("0", "", "g", `{}`)},
			[]chat.ToolCall{anonymous("f", `{"x":`), anonymous("g", `{}`)},
		},
		"an index of its own for every piece": {
			[]string{piece("0", "a", "f", `{"x"`), piece("1", "a", "-", `:1}`), piece("2", "b", "g", `{`), piece("3", "b", "g", `}`)},
			[]chat.ToolCall{f, g},
		},
		"one id for all": {
			[]string{piece("0", "a", "f", `{"x":1}`), piece("1", "a", "f", `{"x":1}`)},
			[]chat.ToolCall{f, f},
		},
		"one id for all, no arguments": {
			[]string{piece("0", "a", "f", ``), piece("1", "a", "g", ``)},
			[]chat.ToolCall{{ID: "a", Name: "f"}, {ID: "a", Name: "g"}},
		},
		"name and id in every piece": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "a", "f", `:1`), piece("0", "a", "f", `}`)},
			[]chat.ToolCall{f},
		},
		"name in every piece": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "-", "f", `:1`), piece("0", "-", "f", `}`)},
			[]chat.ToolCall{f},
		},
		"name and id in every piece, pieces that look whole": {
			[]string{piece("0", "a", "f", `{"x":{}`), piece("0", "a", "f", `,"y":{}`), piece("0", "a", "f", `}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":{},"y":{}}`}},
		},
		"name and id in every piece, two pieces in a chunk": {
			[]string{pieces(entry("0", "a", "f", `{"x"`), entry("0", "a", "f", `:1}`))},
			[]chat.ToolCall{f},
		},
		"a new id in every piece": {[]string{piece("0", "a", "f", `{"x"`), piece("0", "b", "-", `:1`), piece("0", "c", "-", `}`)}, []chat.ToolCall{f}},
		"a new id and the name in every piece": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "b", "f", `:1`), piece("0", "c", "f", `}`)},
			[]chat.ToolCall{f},
		},
		"a new id and the name in every piece, no index": {
			[]string{piece("-", "a", "f", `{"x"`), piece("-", "b", "f", `:1`), piece("-", "c", "f", `}`)},
			[]chat.ToolCall{f},
		},
		"a new id, the name and a new index in every piece": {
			[]string{piece("0", "a", "f", `{"x"`), piece("1", "b", "f", `:1`), piece("2", "c", "f", `}`), piece("3", "b", "g", `{}`)},
			[]chat.ToolCall{f, g},
		},
		"a new index in every piece, nothing else": {
			[]string{piece("0", "a", "f", `{"x"`), piece("1", "-", "-", `:1`), piece("2", "-", "-", `}`)},
			[]chat.ToolCall{f},
		},
		"a new id and the name in every piece, announced without arguments, and nothing at the end": {
			[]string{piece("0", "a", "f", ``), piece("0", "b", "f", `{"x"`), piece("0", "c", "f", ``), piece("0", "d", "f", `:1}`), piece("0", "e", "f", ``)},
			[]chat.ToolCall{f},
		},
		"a new id and the name in every piece, of two calls of one tool": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "x", "f", `:1}`), piece("0", "y", "f", `{"x"`), piece("0", "z", "f", `:2}`)},
			[]chat.ToolCall{f, {ID: "y", Name: "f", Arguments: `{"x":2}`}},
		},
		"a new id and the name in every piece, one of which begins with a brace": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "b", "f", `:`), piece("0", "c", "f", `{"y":1}`), piece("0", "d", "f", `}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":{"y":1}}`}},
		},
		"a new id and another name while the first call is open": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "b", "g", `:1}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x"`}, {ID: "b", Name: "g", Arguments: `:1}`}},
		},
		"a new id and a new object while the first call is open": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "b", "f", ` {}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x"`}, {ID: "b", Name: "f", Arguments: ` {}`}},
		},
		"one index for all, ids differ, one without arguments": {
			[]string{piece("0", "a", "f", ``), piece("0", "b", "f", `{"x"`), piece("0", "-", "-", `:1}`)},
			[]chat.ToolCall{{ID: "a", Name: "f"}, {ID: "b", Name: "f", Arguments: `{"x":1}`}},
		},
		"one index for all, pieces mixed, by id": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "b", "g", `{`), piece("0", "a", "f", `:1}`), piece("0", "b", "-", `}`)},
			[]chat.ToolCall{f, g},
		},
		"an announcement keeps its fields and its index": {
			[]string{delta(`"tool_calls":[{"index":7,"id":"a","type":"function","p":1,"function":{"name":"f"}}]`), piece("-", "b", "f", `{"x"`), piece("-", "c", "f", `:`), piece("7", "-", "-", `1}`)},
			[]chat.ToolCall{{ID: "a", Type: "function", Name: "f", Arguments: `{"x":1}`, Extra: raws{"p": raw("1")}}},
		},
		"one index for all, no ids, no arguments": {
			[]string{piece("0", "-", "list", ""), piece("0", "-", "time", "")},
			[]chat.ToolCall{anonymous("list", ""), anonymous("time", "")},
		},
		"one index for all, no ids, the name growing": {
			[]string{piece("0", "-", "list", ""), piece("0", "-", "list_all", ""), piece("0", "-", "-", `{}`)},
			[]chat.ToolCall{anonymous("list_all", "{}")},
		},
		"the whole call once more, with other space": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "-", "-", ": 1}\n"), piece("0", "a", "f", `{"x" :1 }`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: "{\"x\": 1}\n"}},
		},
		"the call once more, with other space within a text": {
			[]string{piece("0", "a", "f", `{"x":"a b"}`), piece("0", "a", "f", `{"x":"ab"}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":"a b"}`}, {ID: "a", Name: "f", Arguments: `{"x":"ab"}`}},
		},
		"an empty object with space, then whole": {
			[]string{piece("0", "a", "f", `{ }`), piece("0", "a", "f", `{"x":1}`)},
			[]chat.ToolCall{f},
		},
		"a new id and the name in every piece, the second of which is a value": {
			[]string{piece("0", "a", "f", `{"x":`), piece("0", "b", "f", `{"z":1}`), piece("0", "c", "f", `}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":{"z":1}}`}},
		},
		"a new id and the name in every piece, the second of which is an element": {
			[]string{piece("0", "a", "f", `{"x":[{"y":[]},`), piece("0", "b", "f", `{"z":1}`), piece("0", "c", "f", `]}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":[{"y":[]},{"z":1}]}`}},
		},
		"a new id and the name in every piece, the second of which is code in a text": {
			[]string{piece("0", "a", "f", `{"x":"if a `), piece("0", "b", "f", `{`), piece("0", "c", "f", `}"}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":"if a {}"}`}},
		},
		"a new id and a new object where the first call wants a key": {
			[]string{piece("0", "a", "f", `{"x":[],`), piece("0", "b", "f", `{"x":1}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":[],`}, {ID: "b", Name: "f", Arguments: `{"x":1}`}},
		},
		"a new id, a new index and a new object where the first call wants a value": {
			[]string{piece("0", "a", "f", `{"x":`), piece("1", "b", "f", `{"x":1}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":`}, {ID: "b", Name: "f", Arguments: `{"x":1}`}},
		},
		"no index, a new id and a new object where the first call wants a value": {
			[]string{piece("-", "a", "f", `{"x":`), piece("-", "b", "f", `{"x":1}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":`}, {ID: "b", Name: "f", Arguments: `{"x":1}`}},
		},
		"the name in pieces":                 {[]string{piece("0", "a", "read_", "-"), piece("0", "-", "file", "-"), piece("0", "-", "-", `{}`)}, []chat.ToolCall{{ID: "a", Name: "read_file", Arguments: "{}"}}},
		"the name in pieces, the id in each": {[]string{piece("0", "a", "read_", "-"), piece("0", "a", "file", "{}")}, []chat.ToolCall{{ID: "a", Name: "read_file", Arguments: "{}"}}},
		"the name growing":                   {[]string{piece("0", "a", "read", "-"), piece("0", "-", "read_file", "-"), piece("0", "-", "-", `{}`)}, []chat.ToolCall{{ID: "a", Name: "read_file", Arguments: "{}"}}},
		"the name last":                      {[]string{piece("0", "a", "-", `{"x"`), piece("0", "-", "f", `:1}`)}, []chat.ToolCall{f}},
		"an empty name later":                {[]string{piece("0", "a", "f", `{"x"`), piece("0", "", "", `:1}`)}, []chat.ToolCall{f}},
		"the id late":                        {[]string{piece("0", "-", "f", `{"x"`), piece("0", "a", "-", `:1}`)}, []chat.ToolCall{f}},
		"the whole call once more":           {[]string{piece("0", "a", "f", `{"x"`), piece("0", "-", "-", `:1}`), piece("0", "a", "f", `{"x":1}`)}, []chat.ToolCall{f}},
		"the whole call once more, no index": {[]string{piece("-", "a", "f", `{"x":1}`), piece("-", "a", "f", ` {"x":1}`)}, []chat.ToolCall{f}},
		"the same call with another id":      {[]string{piece("0", "a", "f", `{"x":1}`), piece("0", "b", "f", `{"x":1}`)}, []chat.ToolCall{f, {ID: "b", Name: "f", Arguments: `{"x":1}`}}},
		"the name once more, nothing else":   {[]string{piece("0", "a", "f", `{"x":1}`), piece("0", "a", "f", ""), piece("0", "a", "f", " ")}, []chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":1} `}}},
		"an empty object first":              {[]string{piece("0", "a", "f", `{}`), piece("0", "-", "-", `{"x"`), piece("0", "-", "-", `:1}`)}, []chat.ToolCall{f}},
		"an empty object first, then whole":  {[]string{piece("0", "a", "f", `{}`), piece("0", "a", "f", `{"x":1}`)}, []chat.ToolCall{f}},
		"an empty object and a second call":  {[]string{piece("0", "", "f", `{}`), piece("0", "", "f", `{"x":1}`)}, []chat.ToolCall{anonymous("f", "{}"), anonymous("f", `{"x":1}`)}},
		"arguments null, then text":          {[]string{delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":null}}]`), piece("0", "-", "-", `{"x":1}`)}, []chat.ToolCall{f}},
		"arguments as an object":             {[]string{delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]`)}, []chat.ToolCall{f}},
		"brackets within strings":            {[]string{piece("0", "a", "f", `{"x":"}\"}`), piece("0", "-", "f", `{"}`)}, []chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":"}\"}{"}`}}},
		"arguments that are broken":          {[]string{piece("0", "a", "f", `{"x":"\q"}`), piece("0", "b", "g", `{}`)}, []chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":"\q"}`}, g}},
		"arguments that are no object":       {[]string{piece("0", "a", "f", `x`), piece("0", "-", "-", `{}`), piece("0", "a", "f", `{}`)}, []chat.ToolCall{{ID: "a", Name: "f", Arguments: `x{}{}`}}},
		"the old function_call":              {[]string{delta(`"function_call":{"name":"f","arguments":""}`), delta(`"function_call":{"arguments":"{\"x\""}`), delta(`"function_call":{"arguments":":1}"}`)}, []chat.ToolCall{anonymous("f", `{"x":1}`)}},
		"the old form beside the new one": {
			[]string{delta(`"function_call":{"name":"f","arguments":"{\"x\":1}"},"tool_calls":[` + entry("0", "a", "f", `{"x":1}`) + `]`)}, []chat.ToolCall{f},
		},
		"the old form behind the new one, spaced otherwise": {
			[]string{delta(`"tool_calls":[` + entry("0", "a", "f", `{"x":1}`) + `],"function_call":{"name":"f","arguments":{"x": 1}}`)}, []chat.ToolCall{f},
		},
		"the old form beside the new one, in pieces": {
			[]string{
				delta(`"function_call":{"name":"f","arguments":""},"tool_calls":[` + entry("0", "a", "f", "") + `]`),
				delta(`"function_call":{"name":"f","arguments":"{\"x\""},"tool_calls":[` + entry("0", "a", "f", `{"x"`) + `]`),
				delta(`"tool_calls":[` + entry("0", "-", "-", ":1}") + `],"function_call":{"arguments":":1}"}`),
			}, []chat.ToolCall{f},
		},
		"the old form a chunk before the new one": {
			[]string{
				delta(`"function_call":{"name":"f","arguments":"{\"x\""}`), piece("0", "a", "f", `{"x"`),
				delta(`"function_call":{"arguments":":1}"}`), piece("0", "-", "-", `:1}`),
			}, []chat.ToolCall{f},
		},
		"the old form after all of the new one": {
			[]string{piece("0", "a", "f", `{"x":1}`), piece("1", "b", "g", `{}`), delta(`"function_call":{"name":"f","arguments":"{\"x\":1}"}`)}, []chat.ToolCall{f, g},
		},
		"the old form of the last of several": {
			[]string{delta(`"function_call":{"name":"g","arguments":"{}"},"tool_calls":[` + entry("0", "a", "f", `{"x":1}`) + `,` + entry("1", "b", "g", "{}") + `]`)}, []chat.ToolCall{f, g},
		},
		"the old form in pieces, the new one in a whole message": {
			[]string{
				delta(`"function_call":{"name":"f","arguments":"{\"x\":1}"}`),
				`{"choices":[{"message":{"function_call":{"name":"f","arguments":"{\"x\":1}"},"tool_calls":[` + entry("-", "a", "f", `{"x":1}`) + `]}}]}`,
			}, []chat.ToolCall{f},
		},
		"the old form beside an empty list": {
			[]string{delta(`"tool_calls":[],"function_call":{"name":"f","arguments":"{\"x\""}`), delta(`"tool_calls":null,"function_call":{"arguments":":1}"}`)},
			[]chat.ToolCall{anonymous("f", `{"x":1}`)},
		},
		"the old form of another tool is another call": {
			[]string{delta(`"function_call":{"name":"h","arguments":"{}"},"tool_calls":[` + entry("0", "a", "f", `{"x":1}`) + `]`)},
			[]chat.ToolCall{f, anonymous("h", `{}`)},
		},
		"arguments once more, without id and name": {
			[]string{piece("0", "a", "f", `{"x"`), piece("0", "-", "-", `:1}`), piece("0", "-", "-", `{"x": 1}`), piece("1", "b", "g", `{}`)},
			[]chat.ToolCall{f, g},
		},
		"arguments once more, in pieces": {
			[]string{piece("0", "a", "f", `{"x":1}`), piece("0", "-", "-", `{"x"`), piece("0", "-", "-", `:1}`), piece("1", "b", "g", `{}`)},
			[]chat.ToolCall{f, g},
		},
		"other arguments behind the end are the model's": {
			[]string{piece("0", "a", "f", `{"x":1}`), piece("0", "-", "-", `{"x":2}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":1}{"x":2}`}},
		},
		"an object that has itself twice": {
			[]string{piece("0", "a", "f", `{"x":[`), piece("0", "-", "-", `{}`), piece("0", "-", "-", `,`), piece("0", "-", "-", `{}`), piece("0", "-", "-", `]}`)},
			[]chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":[{},{}]}`}},
		},
		"two calls of one tool with the tool's id, heads first": {
			[]string{piece("0", "f", "f", ""), piece("1", "f", "f", ""), piece("0", "-", "-", `{"x":1}`), piece("1", "-", "-", `{"x":2}`)},
			[]chat.ToolCall{{ID: "f", Name: "f", Arguments: `{"x":1}`}, {ID: "f", Name: "f", Arguments: `{"x":2}`}},
		},
		"the same, in one chunk each": {
			[]string{pieces(entry("0", "f", "f", ""), entry("1", "f", "f", "")), pieces(entry("0", "f", "-", `{"x"`), entry("1", "f", "-", `{"x"`)), pieces(entry("0", "-", "-", `:1}`), entry("1", "-", "-", `:2}`))},
			[]chat.ToolCall{{ID: "f", Name: "f", Arguments: `{"x":1}`}, {ID: "f", Name: "f", Arguments: `{"x":2}`}},
		},
		"one call, an index for every piece, two heads": {
			[]string{piece("0", "a", "f", ""), piece("1", "a", "f", ""), piece("2", "a", "f", `{"x"`), piece("3", "a", "f", `:1}`)},
			[]chat.ToolCall{f},
		},
		"no index, one id for all, whole calls in a chunk": {
			[]string{pieces(entry("-", "f", "f", `{"x":1}`), entry("-", "f", "f", `{"x":2}`), entry("-", "f", "g", `{}`))},
			[]chat.ToolCall{{ID: "f", Name: "f", Arguments: `{"x":1}`}, {ID: "f", Name: "f", Arguments: `{"x":2}`}, {ID: "f", Name: "g", Arguments: `{}`}},
		},
		"a call with nothing is none":   {[]string{delta(`"tool_calls":[{},{"index":3,"type":"function","function":{"name":"","arguments":""}}]`)}, nil},
		"a whole message at the end":    {[]string{piece("0", "a", "f", `{"x"`), `{"choices":[{"message":{"tool_calls":[` + entry("-", "a", "f", `{"x":1}`) + `,` + entry("-", "b", "g", `{}`) + `]}}]}`}, []chat.ToolCall{f, g}},
		"a whole message without calls": {[]string{piece("0", "a", "f", `{"x":1}`), `{"choices":[{"message":{"content":"text"}}]}`}, []chat.ToolCall{f}},
		"unknown fields of all pieces": {
			[]string{delta(`"tool_calls":[{"index":0,"p":1,"q":1}]`), delta(`"tool_calls":[{"index":0,"q":2}]`)},
			[]chat.ToolCall{{Extra: raws{"p": raw("1"), "q": raw("2")}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, assemble(t, tc.chunks...).Message.ToolCalls)
		})
	}
}

func TestAssembleTheRest(t *testing.T) {
	for name, tc := range map[string]struct {
		chunks []string
		want   chat.Response
	}{
		"nothing": {nil, chat.Response{Message: chat.Assistant("")}},
		"text, with names in the first chunk only": {
			[]string{`{"id":"r","model":"m","choices":[{"delta":{"role":"assistant","content":""}}]}`, delta(`"content":"a"`), delta(`"content":"b"`), `{"choices":[{"delta":{},"finish_reason":"stop"}]}`},
			chat.Response{ID: "r", Model: "m", Message: chat.Assistant("ab"), FinishReason: chat.FinishStop},
		},
		"names that change: the first": {
			[]string{`{"id":"r","model":"m","choices":[]}`, `{"id":"s","model":"n","choices":[]}`},
			chat.Response{ID: "r", Model: "m", Message: chat.Assistant("")},
		},
		"a role that is none": {
			[]string{delta(`"role":"user","content":"a"`)},
			chat.Response{Message: chat.Assistant("a")},
		},
		"the last usage counts, never a sum": {
			[]string{`{"choices":[],"usage":{"prompt_tokens":1}}`, `{"choices":[],"usage":null}`, `{"choices":[],"usage":{"prompt_tokens":5}}`},
			chat.Response{Message: chat.Assistant(""), Usage: &chat.Usage{PromptTokens: 5, TotalTokens: 5, Raw: raw(`{"prompt_tokens":5}`)}},
		},
		"the last reason counts": {
			[]string{`{"choices":[{"finish_reason":"stop"}]}`, `{"choices":[{"finish_reason":"tool_calls"}]}`, `{"choices":[{"finish_reason":""}]}`},
			chat.Response{Message: chat.Assistant(""), FinishReason: chat.FinishToolCalls},
		},
		"a server's length stays before a proxy's stop": {
			[]string{`{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`},
			chat.Response{Message: chat.Assistant("a"), FinishReason: chat.FinishLength},
		},
		"an abort stays before tool_calls": {
			[]string{delta(`"content":"a"`), `{"choices":[{"finish_reason":"abort"}]}`, `{"choices":[{"finish_reason":"tool_calls"}]}`},
			chat.Response{Message: chat.Assistant("a"), FinishReason: chat.FinishAbort},
		},
		"a filter stays before a whole message that stops": {
			[]string{delta(`"content":"a"`), `{"choices":[{"finish_reason":"SAFETY"}]}`, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`},
			chat.Response{Message: chat.Assistant("a"), FinishReason: "SAFETY"},
		},
		"an error takes the place of a length": {
			[]string{`{"choices":[{"finish_reason":"length"}]}`, `{"choices":[{"finish_reason":"error"}]}`, `{"choices":[{"finish_reason":"stop"}]}`},
			chat.Response{Message: chat.Assistant(""), FinishReason: chat.FinishError},
		},
		"a length takes the place of a stop": {
			[]string{`{"choices":[{"finish_reason":"stop"}]}`, `{"choices":[{"finish_reason":"length"}]}`},
			chat.Response{Message: chat.Assistant(""), FinishReason: chat.FinishLength},
		},
		"a stop with every piece, tool_calls at the end": {
			[]string{`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, `{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}`, `{"choices":[{"finish_reason":"tool_calls"}]}`},
			chat.Response{Message: chat.Assistant("ab"), FinishReason: chat.FinishToolCalls},
		},
		"a length with every piece is none": {
			[]string{`{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}`, `{"choices":[{"delta":{"content":"b"},"finish_reason":"length"}]}`, `{"choices":[{"finish_reason":"stop"}]}`},
			chat.Response{Message: chat.Assistant("ab"), FinishReason: chat.FinishStop},
		},
		"a length that the model went on after is none": {
			[]string{`{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}`, delta(`"content":"b"`), `{"choices":[{"finish_reason":"stop"}]}`},
			chat.Response{Message: chat.Assistant("ab"), FinishReason: chat.FinishStop},
		},
		"sources after a length are no more of the answer": {
			[]string{`{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}`, delta(`"sources":["s"]`), `{"choices":[{"finish_reason":"stop"}]}`},
			chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "a", Extra: raws{"sources": raw(`["s"]`)}}, FinishReason: chat.FinishLength},
		},
		"unknown fields in pieces are not sent back": {
			[]string{delta(`"thought":"I ","audio":{"id":"x","data":"AA"},"sources":[1]`), delta(`"thought":"think","audio":{"data":"BB"},"sources":[2]`), delta(`"thought":"think"`)},
			chat.Response{Message: chat.Assistant("")},
		},
		"unknown fields that repeat or grow are": {
			[]string{delta(`"a":"I ","b":"x","c":[1],"d":{"e":"x","f":[]}`), delta(`"a":"I think","b":"x","c":[1, 2],"d":{"e":"xy","f":[1],"g":1}`), delta(`"b":"x","a":"","c":null`)},
			chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Extra: raws{"a": raw(`"I think"`), "b": raw(`"x"`), "c": raw(`[1, 2]`), "d": raw(`{"e":"xy","f":[1],"g":1}`)}}},
		},
		"a signature behind a note on thoughts is": {
			[]string{delta(`"content":"a","extra_content":{"google":{"thought":true}}`), delta(`"extra_content":{"google":{"thought_signature":"s"}}`)},
			chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "a", Extra: raws{"extra_content": raw(`{"google":{"thought_signature":"s"}}`)}}},
		},
		"unknown fields in pieces, and in a whole message at the end": {
			[]string{delta(`"thought":"I "`), delta(`"thought":"think"`), `{"choices":[{"message":{"content":"a","thought":"I think"}}]}`},
			chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "a", Extra: raws{"thought": raw(`"I think"`)}}},
		},
		"reasoning and refusal": {
			[]string{delta(`"reasoning":"h"`), delta(`"reasoning":"m"`), delta(`"refusal":"n"`), delta(`"refusal":"o"`)},
			chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Reasoning: "hm", ReasoningKey: "reasoning", Refusal: "no"}},
		},
		"a name announced is a name": {
			[]string{delta(`"reasoning_content":""`), delta(`"content":"a","reasoning_content":null`)},
			chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "a", ReasoningKey: "reasoning_content"}},
		},
		"the name of the first thought": {
			[]string{delta(`"reasoning_content":null`), delta(`"reasoning":"h"`), delta(`"reasoning_content":"m"`)},
			chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Reasoning: "hm", ReasoningKey: "reasoning"}},
		},
		"pieces beside the message so far are the pieces": {
			[]string{
				`{"choices":[{"finish_reason":null,"message":{"content":"a"},"delta":{"content":"a"}}]}`,
				`{"choices":[{"finish_reason":null,"message":{"content":"ab"},"delta":{"content":"b"}}]}`,
				`{"choices":[{"finish_reason":"stop","message":{"content":"abc"},"delta":{"content":"c"}}]}`,
			},
			chat.Response{Message: chat.Assistant("abc"), FinishReason: chat.FinishStop},
		},
		"pieces beside the message so far, and the whole at the end": {
			[]string{
				`{"choices":[{"finish_reason":null,"message":{"content":"a"},"delta":{"content":"a"}}]}`,
				`{"choices":[{"finish_reason":"stop","message":{"content":"a","annotations":[1]},"delta":{"content":""}}]}`,
			},
			chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "a", Extra: raws{"annotations": raw("[1]")}}, FinishReason: chat.FinishStop},
		},
		"a whole message takes the place of its pieces": {
			[]string{delta(`"content":"a","reasoning":"h"`), delta(`"content":"b"`), `{"choices":[{"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}]}`},
			chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "ab", Reasoning: "h", ReasoningKey: "reasoning"}, FinishReason: chat.FinishStop},
		},
		"an empty message takes no place": {
			[]string{delta(`"content":"a"`), `{"choices":[{"message":{"role":"assistant","content":null},"finish_reason":"stop"}]}`},
			chat.Response{Message: chat.Assistant("a"), FinishReason: chat.FinishStop},
		},
		"unknown fields: the last value": {
			[]string{`{"p":1,"choices":[{"q":1,"delta":{"r":1}}]}`, `{"p":2,"choices":[{"q":2,"delta":{"r":2,"s":{"t":[]}}}]}`},
			chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Extra: raws{"r": raw("2"), "s": raw(`{"t":[]}`)}}, Extra: raws{"p": raw("2")}, ChoiceExtra: raws{"q": raw("2")}},
		},
		"fields that only a piece has, or that are empty, are not sent back": {
			[]string{delta(`"channel":"analysis","annotations":[ ],"audio":{},"provider_specific_fields":{"x":1}`)},
			chat.Response{Message: chat.Assistant("")},
		},
		"log probabilities are joined": {
			[]string{
				`{"choices":[{"delta":{},"logprobs":{"content":[],"refusal":null}}]}`,
				`{"choices":[{"delta":{},"logprobs":{"content":[{"token":"a"}],"refusal":null}}]}`,
				`{"choices":[{"delta":{},"logprobs":{"content":[ {"token":"b"} , {"token":"c"} ]}}]}`,
				`{"choices":[{"delta":{},"logprobs":{"content":null,"refusal":[{"token":"d"}]}}]}`,
			},
			chat.Response{Message: chat.Assistant(""), ChoiceExtra: raws{"logprobs": raw(`{"content":[{"token":"a"},{"token":"b"} , {"token":"c"}],"refusal":[{"token":"d"}]}`)}},
		},
		"log probabilities of another form are kept": {
			[]string{`{"choices":[{"delta":{},"logprobs":{"tokens":["a"]}}]}`},
			chat.Response{Message: chat.Assistant(""), ChoiceExtra: raws{"logprobs": raw(`{"tokens":["a"]}`)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, &tc.want, assemble(t, tc.chunks...))
		})
	}
}

// A signature holds for the whole text: a server that gets the pieces back
// refuses them.
func TestAssembleReasoningDetails(t *testing.T) {
	for name, tc := range map[string]struct {
		lists []string
		want  string
	}{
		"a text and its signature": {
			[]string{`[{"type":"reasoning.text","text":"Let","format":"f","index":0}]`, `[{"type":"reasoning.text","text":" me","format":"f","index":0}]`, `[{"type":"reasoning.text","signature":"sig","format":"f","index":0}]`},
			`[{"type":"reasoning.text","text":"Let me","format":"f","index":0,"signature":"sig"}]`,
		},
		"two blocks, each signed": {
			[]string{`[{"type":"reasoning.text","text":"a"}]`, `[{"type":"reasoning.text","signature":"1"}]`, `[{"type":"reasoning.text","text":"b"}]`, `[{"type":"reasoning.text","signature":"2"}]`},
			`[{"type":"reasoning.text","text":"a","signature":"1"},{"type":"reasoning.text","text":"b","signature":"2"}]`,
		},
		"a change of type parts, whatever the index": {
			[]string{`[{"type":"reasoning.summary","summary":"a","index":0},{"type":"reasoning.summary","summary":"b","index":0}]`, `[{"type":"reasoning.encrypted","data":"x","index":0}]`, `[{"type":"reasoning.summary","summary":"c","index":0}]`},
			`[{"type":"reasoning.summary","summary":"ab","index":0},{"type":"reasoning.encrypted","data":"x","index":0},{"type":"reasoning.summary","summary":"c","index":0}]`,
		},
		"a change of index parts": {
			[]string{`[{"type":"reasoning.text","text":"a","index":0}]`, `[{"type":"reasoning.text","text":"b","index":1}]`},
			`[{"type":"reasoning.text","text":"a","index":0},{"type":"reasoning.text","text":"b","index":1}]`,
		},
		"another id parts": {
			[]string{`[{"type":"reasoning.text","text":"a","id":"1"}]`, `[{"type":"reasoning.text","text":"b","id":"2"}]`, `[{"type":"reasoning.text","text":"c"}]`},
			`[{"type":"reasoning.text","text":"a","id":"1"},{"type":"reasoning.text","text":"bc","id":"2"}]`,
		},
		"encrypted blocks stay apart, byte for byte": {
			[]string{`[{"type":"reasoning.encrypted","data":"x"}]`, `[ {"type": "reasoning.encrypted", "data":"y"} ]`, `[]`},
			`[{"type":"reasoning.encrypted","data":"x"},{"type": "reasoning.encrypted", "data":"y"}]`,
		},
		"what is no block is kept": {
			[]string{`[1,"a",{"text":"t"},{"text":"u"}]`},
			`[1,"a",{"text":"t"},{"text":"u"}]`,
		},
		"what is no list is kept": {[]string{`{"a":1}`}, `{"a":1}`},
		"members of an order of their own, a null that is filled in": {
			[]string{`[{"signature":null,"text":"a","index":0,"type":"reasoning.text"}]`, `[{"signature":"1","x":2,"index":0,"type":"reasoning.text"}]`},
			`[{"type":"reasoning.text","text":"a","index":0,"signature":"1","x":2}]`,
		},
		"a character that is cut in two": {
			[]string{`[{"type":"reasoning.text","text":"a\ud83d"}]`, `[{"type":"reasoning.text","text":"\ude00b"}]`},
			`[{"type":"reasoning.text","text":"a😀b"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var chunks []string
			for _, list := range tc.lists {
				chunks = append(chunks, delta(`"reasoning_details":`+list))
			}
			assert.Equal(t, tc.want, string(assemble(t, chunks...).Message.Extra["reasoning_details"]))
		})
	}
}

func TestAssembleThinkingBlocks(t *testing.T) {
	got := assemble(t,
		delta(`"thinking_blocks":[{"type":"thinking","thinking":"Let","signature":null}]`),
		delta(`"thinking_blocks":[{"type":"thinking","thinking":" me"}]`),
		delta(`"thinking_blocks":[{"type":"thinking","thinking":"","signature":"sig"}]`),
		delta(`"thinking_blocks":[{"type":"redacted_thinking","data":"x"}]`))
	assert.Equal(t, `[{"type":"thinking","thinking":"Let me","signature":"sig"},{"type":"redacted_thinking","data":"x"}]`,
		string(got.Message.Extra["thinking_blocks"]))
}

// An answer may have as many calls as the bound says. What a server sends beyond
// it is told, and left out.
func TestMaxToolCalls(t *testing.T) {
	list := func(n int) string {
		return strings.Repeat(entry("-", "-", "f", "{}")+",", n-1) + entry("-", "-", "f", "{}")
	}

	ch, err := chat.ParseChunk([]byte(pieces(list(chat.MaxToolCalls))))
	require.NoError(t, err)
	assert.Len(t, ch.ToolCalls, chat.MaxToolCalls)

	in := []byte(pieces(list(chat.MaxToolCalls + 1)))
	_, err = chat.ParseChunk(in)
	require.ErrorIs(t, err, chat.ErrTooManyCalls)
	assert.EqualError(t, err, "chat: more than 1024 tool calls in one answer")
	_, _, err = chat.ParseResponse(in)
	require.ErrorIs(t, err, chat.ErrTooManyCalls)
	var m chat.Message
	require.ErrorIs(t, m.UnmarshalJSON([]byte(`{"role":"assistant","tool_calls":[`+list(chat.MaxToolCalls+1)+`]}`)), chat.ErrTooManyCalls)
	_, err = chat.ParseChunk([]byte(delta(`"function_call":{"name":"f"},"tool_calls":[` + list(chat.MaxToolCalls) + `]`)))
	require.ErrorIs(t, err, chat.ErrTooManyCalls)

	var a chat.Assembler
	a.Add(ch)
	require.NoError(t, a.Err())
	more, err := chat.ParseChunk([]byte(piece("0", "late", "g", "{}")))
	require.NoError(t, err)
	a.Add(more)
	require.ErrorIs(t, a.Err(), chat.ErrTooManyCalls)
	assert.Len(t, a.Response().Message.ToolCalls, chat.MaxToolCalls)

	// A whole message takes the place of the calls, and of their number.
	whole, err := chat.ParseChunk([]byte(`{"choices":[{"message":{"tool_calls":[` + entry("-", "a", "f", "{}") + `]}}]}`))
	require.NoError(t, err)
	a.Add(whole)
	require.NoError(t, a.Err())
	assert.Len(t, a.Response().Message.ToolCalls, 1)
}

// What Response returned is the caller's: neither later chunks nor the
// caller's own changes reach from one result into another.
func TestResponseIsASnapshot(t *testing.T) {
	var a chat.Assembler
	ch, err := chat.ParseChunk([]byte(`{"id":"r","x":1,"choices":[{"y":1,"delta":{"z":1,"content":"a","reasoning":"b","tool_calls":[{"index":0,"id":"c","w":1,"function":{"name":"f","arguments":"{"}}]}}],"usage":{"prompt_tokens":1}}`))
	require.NoError(t, err)
	a.Add(ch)
	before, same := a.Response(), a.Response()

	next, err := chat.ParseChunk([]byte(`{"x":2,"v":2,"choices":[{"y":2,"delta":{"z":2,"content":"a","reasoning":"b","tool_calls":[{"index":0,"w":2,"function":{"arguments":"}"}}]}}],"usage":{"prompt_tokens":2}}`))
	require.NoError(t, err)
	a.Add(next)
	assert.Equal(t, same, before)

	before.Usage.PromptTokens = 9
	before.Extra["x"], before.ChoiceExtra["y"], before.Message.Extra["z"] = nil, nil, nil
	before.Message.ToolCalls[0].Extra["w"] = nil
	ch.Usage.PromptTokens = 9
	next.Usage.PromptTokens = 9
	after := a.Response()
	assert.Equal(t, int64(2), after.Usage.PromptTokens)
	assert.Equal(t, int64(1), same.Usage.PromptTokens)
	assert.Equal(t, raws{"x": raw("2"), "v": raw("2")}, after.Extra)
	assert.Equal(t, raws{"y": raw("2")}, after.ChoiceExtra)
	assert.Equal(t, raws{"z": raw("2")}, after.Message.Extra)
	assert.Equal(t, []chat.ToolCall{{ID: "c", Name: "f", Arguments: "{}", Extra: raws{"w": raw("2")}}}, after.Message.ToolCalls)
	assert.Equal(t, "aa", after.Message.Content)
}
