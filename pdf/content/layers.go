package content

import "github.com/batchfleet/batchfleet/pdf/cos"

// layers are the optional content groups of a document that are off when it is
// opened (ISO 32000-1, 8.11).
type layers struct {
	off   map[cos.Ref]bool
	notes []string // what is damaged of them
}

const (
	maxLayers = 100_000
	// maxExpression bounds how deep visibility expressions nest, and how many
	// groups a membership lists.
	maxExpression = 16
	maxMembers    = 1000
)

func readLayers(file *cos.File) *layers {
	l := &layers{off: map[cos.Ref]bool{}}
	properties := file.Dict(file.Dict(file.Trailer["Root"])["OCProperties"])
	config := file.Dict(properties["D"])
	set := func(list cos.Object, off bool) {
		groups := file.Array(list)
		for _, o := range groups[:min(len(groups), maxLayers)] {
			if ref, ok := o.(cos.Ref); ok && off {
				l.off[ref] = true
			} else if ok {
				delete(l.off, ref)
			}
		}
	}
	if file.Name(config["BaseState"]) == "OFF" {
		set(properties["OCGs"], true)
	}
	set(config["ON"], false)
	set(config["OFF"], true)
	return l
}

// visible reports whether content that belongs to o, a group or a membership
// of groups, is shown. Content that belongs to nothing is.
func (in *interpreter) visible(o cos.Object) bool {
	if o == nil {
		return true
	}
	if in.layers == nil {
		if in.file.BudgetErr() != nil {
			return true // nothing more is read
		}
		var l *layers
		notes := in.file.Noted(func() { l = readLayers(in.file) })
		l.notes = notes
		if in.file.BudgetErr() != nil {
			return true // some may be missing
		}
		in.layers = l
	} else {
		in.file.Renote(in.layers.notes)
	}
	if len(in.layers.off) == 0 {
		return true
	}
	if ref, ok := o.(cos.Ref); ok && in.layers.off[ref] {
		return false
	}
	d := in.file.Dict(o)
	if in.file.Name(d["Type"]) != "OCMD" {
		return true
	}
	if rule := in.file.Array(d["VE"]); len(rule) > 0 {
		return in.holds(rule, 0)
	}
	return in.member(d)
}

// member applies the policy of membership dictionary d to its groups.
func (in *interpreter) member(d cos.Dict) bool {
	groups := cos.Array{d["OCGs"]}
	if list := in.file.Array(d["OCGs"]); list != nil {
		groups = list
	}
	on, off := 0, 0
	for _, o := range groups[:min(len(groups), maxMembers)] {
		in.operators--
		ref, ok := o.(cos.Ref)
		switch {
		case !ok: // null: a group that was deleted has no say
		case in.layers.off[ref]:
			off++
		default:
			on++
		}
	}
	if on+off == 0 {
		return true
	}
	switch in.file.Name(d["P"]) {
	case "AllOn":
		return off == 0
	case "AnyOff":
		return off > 0
	case "AllOff":
		return on == 0
	}
	return on > 0
}

// holds evaluates a visibility expression: [/And e…], [/Or e…] or [/Not e],
// where e is an expression or a group. Each term costs an operator, because
// expressions may share parts and so be exponentially long.
func (in *interpreter) holds(rule cos.Array, depth int) bool {
	if depth > maxExpression || len(rule) == 0 {
		return true
	}
	operator := in.file.Name(rule[0])
	for _, o := range rule[1:min(len(rule), maxMembers)] {
		if in.operators--; in.operators < 0 {
			return true
		}
		value := true
		if nested := in.file.Array(o); nested != nil {
			value = in.holds(nested, depth+1)
		} else if ref, ok := o.(cos.Ref); ok {
			value = !in.layers.off[ref]
		}
		switch {
		case operator == "Not":
			return !value
		case value == (operator == "Or"):
			return value // decided
		}
	}
	return operator != "Or" || len(rule) == 1
}
