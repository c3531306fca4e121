package settings

import (
	"reflect"
	"strings"
)

// Setting is a variable of the environment.
type Setting struct {
	Name, Default string
	Want          string // which values it takes, for people; empty for any
	Doc           string // what it is for
}

// Describe returns the settings of conf, a pointer to a struct with tags of envconfig, in the
// order of its fields, those of embedded structs in their place.
func Describe(conf any) []Setting { return describe(reflect.TypeOf(conf).Elem()) }

func describe(t reflect.Type) (all []Setting) {
	for f := range t.Fields() {
		if f.Anonymous {
			all = append(all, describe(f.Type)...)
			continue
		}
		name := f.Tag.Get("envconfig")
		if name == "" {
			continue
		}
		s := Setting{Name: name, Default: f.Tag.Get("default"), Want: f.Tag.Get("want"), Doc: f.Tag.Get("doc")}
		if limits := f.Tag.Get("range"); limits != "" {
			limits, off := strings.CutPrefix(limits, "off,")
			low, high, _ := strings.Cut(limits, ",")
			if s.Want = low + " to " + high; off {
				s.Want = "0, or " + s.Want
			}
		}
		all = append(all, s)
	}
	return all
}
