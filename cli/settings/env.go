// Package settings reads what the environment sets for a command, and checks it:
// all mistakes are reported at once.
package settings

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/redact"
)

// Seconds is a duration that may be given as 90s, 5m, or as a bare number.
type Seconds time.Duration

// Decode implements [envconfig.Decoder].
func (s *Seconds) Decode(value string) error {
	d, err := time.ParseDuration(value)
	if err != nil {
		n, bad := strconv.ParseFloat(value, 64)
		if bad != nil || n < 0 || n > 1e9 {
			return fmt.Errorf("give a duration such as 90s or 5m, or a number of seconds")
		}
		d = Duration(n)
	}
	*s = Seconds(d)
	return nil
}

// String returns the duration as Go writes it.
func (s Seconds) String() string { return s.D().String() }

// D returns the duration.
func (s Seconds) D() time.Duration { return time.Duration(s) }

// Duration returns a number of seconds as a duration.
func Duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// Read fills conf, a pointer to a struct with tags of envconfig, from the
// environment, to which [program.Run] has added the file .env, and reports all mistakes
// at once.
func Read(conf interface{ Check() []error }) error {
	// Empty means not set: compose writes ${VAR:-} for an unset variable.
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); value == "" {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	var mistakes []error
	var unread []string
	for {
		err := envconfig.Process("", conf)
		wrong := (*envconfig.ParseError)(nil)
		if !errors.As(err, &wrong) {
			if err != nil {
				mistakes = append(mistakes, err)
			}
			break
		}
		mistakes = append(mistakes, fmt.Errorf("%s is %q: %w", wrong.KeyName, redact.Reason(wrong.Value), plainCause(wrong)))
		unread = append(unread, wrong.KeyName)
		// Without the bad value its default applies, and the next one shows.
		if err := os.Unsetenv(wrong.KeyName); err != nil {
			return err
		}
	}
	followed := slices.DeleteFunc(conf.Check(), func(err error) bool {
		return err != nil && slices.ContainsFunc(unread, func(name string) bool { return strings.HasPrefix(err.Error(), name+" ") })
	})
	switch mistakes = Compact(mistakes, followed); len(mistakes) {
	case 0:
		return nil
	case 1:
		return program.Exit(program.Usage, mistakes[0])
	}
	return program.Exit(program.Usage, fmt.Errorf("configuration:\n%w", errors.Join(mistakes...)))
}

// plainCause drops what strconv says of its own functions.
func plainCause(e *envconfig.ParseError) error {
	if n := (*strconv.NumError)(nil); errors.As(e.Err, &n) {
		switch {
		case strings.TrimPrefix(e.TypeName, "*") == reflect.Bool.String():
			return errors.New("want true or false")
		case strings.HasSuffix(e.KeyName, "_BYTES"):
			return errors.New("want a whole number, of bytes")
		}
		return errors.New("want a whole number")
	}
	return e.Err
}

// Limits returns what is wrong with the fields of conf, a pointer to a struct, by their tags:
// range, as [Within] reads it, or "off," and a range where 0 is allowed, too; want, for
// "one or another" word. Structs in it see to their own.
func Limits(conf any) (wrong []error) {
	for _, err := range limits(conf) {
		wrong = append(wrong, err)
	}
	return wrong
}

// Good reports whether [Limits] finds nothing wrong with the fields of these names. What
// would follow from a wrong one is no mistake of its own.
func Good(conf any, names ...string) bool {
	for name, err := range limits(conf) {
		if err != nil && slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// limits yields each field of conf that has limits, by its name, and what is wrong with it.
func limits(conf any) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		v := reflect.ValueOf(conf).Elem()
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			name, words := tag.Get("envconfig"), tag.Get("want")
			limits, off := strings.CutPrefix(tag.Get("range"), "off,")
			value := reflect.Indirect(v.Field(i))
			var err error
			switch {
			case words != "" && !slices.Contains(strings.Split(words, " or "), value.String()):
				err = fmt.Errorf("%s is %q: want %s", name, value.String(), words)
			case limits != "" && value.IsValid() && (!off || !value.IsZero()):
				err = Within(name, fmt.Sprint(value.Interface()), limits)
			}
			if !yield(name, err) {
				return
			}
		}
	}
}

// Within returns an error unless value is within limits, such as "1,256" or "100ms,1m",
// which are shown as they are written.
func Within(name, value, limits string) error {
	low, high, _ := strings.Cut(limits, ",")
	if n := number(value); !(number(low) <= n && n <= number(high)) {
		return fmt.Errorf("%s is %s: must be from %s to %s", name, value, low, high)
	}
	return nil
}

// number returns a number, or a duration in nanoseconds. What is neither is within no limits.
func number(text string) float64 {
	if d, err := time.ParseDuration(text); err == nil {
		return float64(d)
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n
	}
	return math.NaN()
}

// LogLevel returns an error unless LOG_LEVEL is a level or not set.
func LogLevel() error {
	if level := os.Getenv("LOG_LEVEL"); level != "" && new(slog.Level).UnmarshalText([]byte(level)) != nil {
		return fmt.Errorf("LOG_LEVEL is %q: want DEBUG, INFO, WARN or ERROR", level)
	}
	return nil
}

// Compact joins lists of errors and drops the nil ones and those said before.
func Compact(lists ...[]error) (wrong []error) {
	for _, list := range lists {
		for _, err := range list {
			if err != nil && !slices.ContainsFunc(wrong, func(said error) bool { return said.Error() == err.Error() }) {
				wrong = append(wrong, err)
			}
		}
	}
	return wrong
}
