package health

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxInfo  = 2000 // settings that are kept of one server
	maxText  = 500  // bytes of one of them
	maxDepth = 12
)

// flatten returns the values of a JSON object by names such as a.b.0.c, or nil if
// it is no object.
func flatten(b []byte) map[string]string {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v map[string]any
	if dec.Decode(&v) != nil {
		return nil
	}
	out := make(map[string]string)
	flat(out, "", v, 0)
	return out
}

func flat(out map[string]string, at string, v any, depth int) {
	if len(out) >= maxInfo || depth > maxDepth {
		return
	}
	key := func(k string) string {
		if at == "" {
			return tidy(mask(k))
		}
		return at + "." + tidy(mask(k))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			flat(out, key(k), v[k], depth+1)
		}
		return
	case []any:
		for i, e := range v {
			flat(out, key(strconv.Itoa(i)), e, depth+1)
		}
		return
	case nil:
		out[at] = "null"
	case string:
		out[at] = hide(at, v)
	default:
		out[at] = hide(at, fmt.Sprint(v))
	}
}

// tidy makes one bounded line of a text of unknown origin.
func tidy(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}

// Settings returns the exported fields of a struct, such as an [llmclient.Config],
// as text by names such as Clocks.FirstOutput.Limit. Functions, interfaces, headers
// and zero values are left out. What may be a secret is hidden.
func Settings(v any) map[string]string {
	out := make(map[string]string)
	settings(out, "", reflect.ValueOf(v), 0)
	return out
}

func settings(out map[string]string, at string, v reflect.Value, depth int) {
	if depth > maxDepth || len(out) >= maxInfo || !v.IsValid() {
		return
	}
	if d, ok := as[time.Duration](v); ok {
		if d != 0 {
			out[at] = d.String()
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			settings(out, at, v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || f.Name == "Header" {
				continue
			}
			name := f.Name
			if at != "" {
				name = at + "." + name
			}
			settings(out, name, v.Field(i), depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			settings(out, fmt.Sprintf("%s.%d", at, i), v.Index(i), depth+1)
		}
	case reflect.Bool, reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		if v.IsZero() || at == "" {
			return
		}
		out[at] = hide(at, fmt.Sprint(v.Interface()))
	}
}

func as[T any](v reflect.Value) (T, bool) {
	var zero T
	if !v.CanInterface() {
		return zero, false
	}
	t, ok := v.Interface().(T)
	return t, ok
}
