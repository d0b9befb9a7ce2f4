package llmclient

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/neverhang/neverhang/chat"
)

// adaptsAtMost bounds how often one call changes the form of its messages.
const adaptsAtMost = 8

// adaptForm checks whether the endpoint refused the form of the messages rather than
// their content: a conversation that began at one server has fields that another
// refuses, or lacks one that it demands. If so, it is asked again in another form,
// which is remembered for the model if that helps.
func (a *attempt) adaptForm(r *ruling) {
	if r.adapted || a.call.req == nil || a.at.adapts >= adaptsAtMost {
		return
	}
	form, text := adaptedForm(a.at.form, a.call.req, a.out.status, a.out.server)
	if text == "" {
		return
	}
	a.at.form, a.at.adapts = form, a.at.adapts+1
	*r = ruling{kind: r.kind, adapted: true}
	ev := a.call.event(EventAdapted)
	ev.Text = text
	a.call.client.notify(ev)
}

// formOf returns the form that is known to help with a model.
func (e *endpoint) formOf(model string) chat.Form {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.forms[model]
}

// learns notes that a form helped.
func (e *endpoint) learns(model string, form chat.Form) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.forms == nil {
		e.forms = make(map[string]chat.Form)
	}
	if len(e.forms) < 1000 { // names come from callers
		e.forms[model] = form
	}
}

// adaptedForm looks at a refusal of messages that were sent in a form. It returns
// the form in which to ask again and a text that explains it. The text is empty if
// the refusal is about something else.
func adaptedForm(form chat.Form, req *chat.Request, status int, said *chat.ServerError) (chat.Form, string) {
	if said == nil || status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return form, ""
	}
	words := strings.ToLower(said.Param + " " + said.Code + " " + said.Message + " " + string(said.Raw[:min(len(said.Raw), 4<<10)]))
	switch key := demanded(words); {
	case key != "" && form.ReasoningKey == "":
		form.ReasoningKey = key
		return form, "it demands " + key + " in each message of the assistant: it is sent, empty where there is none"
	case !form.ShortIDs && shortIDs.MatchString(words):
		form.ShortIDs = true
		return form, "it takes ids of calls with nine letters and digits only: others are shortened"
	case !forbids(words):
		return form, ""
	}
	var named []string
	for _, name := range optional(req) {
		if mentions(words, name) && !slices.Contains(form.Omit, name) && name != form.ReasoningKey {
			named = append(named, name)
		}
	}
	switch {
	case len(named) > 0:
		form.Omit = append(slices.Clone(form.Omit), named...)
		return form, "it refuses " + strings.Join(named, ", ") + " in messages: it is left out"
	case !form.Bare && strings.Contains(words, "messages") && len(optional(req)) > 0:
		form.Bare = true
		return form, "it refuses some field of messages: only the needed ones are sent"
	}
	return form, ""
}

// Mistral: "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."
var shortIDs = regexp.MustCompile(`length of (9|nine)\b|\b(9|nine) (alphanumeric|characters)`)

// demanded returns the name of the reasoning field that a server demands.
func demanded(words string) string {
	for _, s := range []string{"must be passed back", "must be provided", "must be included", "is required", "is missing", "missing"} {
		if !strings.Contains(words, s) {
			continue
		}
		for _, name := range []string{"reasoning_content", "reasoning"} {
			if mentions(words, name) {
				return name
			}
		}
	}
	return ""
}

// forbids reports whether a message says that a field is not allowed.
func forbids(words string) bool {
	for _, s := range []string{"unsupported", "not support", "extra_forbidden", "extra inputs", "extra fields", "additional propert",
		"unknown field", "unknown name", "unknown parameter", "unrecognized", "unexpected", "not permitted", "not allowed", "cannot find field"} {
		if strings.Contains(words, s) {
			return true
		}
	}
	return false
}

// optional lists the members of a request's messages that could be left out.
func optional(req *chat.Request) (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) && len(names) < 100 {
			names = append(names, name)
		}
	}
	extra := func(members map[string]json.RawMessage) {
		for name := range members {
			add(name)
		}
	}
	for i := range req.Messages {
		m := &req.Messages[i]
		extra(m.Extra)
		add(m.ReasoningKey)
		if m.Reasoning != "" && m.ReasoningKey == "" {
			add("reasoning_content")
		}
		if m.Refusal != "" {
			add("refusal")
		}
		if m.Name != "" {
			add("name")
		}
		for k := range m.ToolCalls {
			extra(m.ToolCalls[k].Extra)
		}
		for k := range m.Parts {
			extra(m.Parts[k].Extra)
		}
	}
	slices.Sort(names)
	return names
}

// mentions reports whether a name stands in words, and not as a part of another word.
func mentions(words, name string) bool {
	name = strings.ToLower(name)
	for from := 0; ; {
		i := strings.Index(words[from:], name)
		if i < 0 {
			return false
		}
		at := from + i
		end := at + len(name)
		if (at == 0 || !inName(words[at-1])) && (end == len(words) || !inName(words[end])) {
			return true
		}
		from = at + 1
	}
}

func inName(b byte) bool { return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' }
