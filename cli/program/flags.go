package program

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wrongFlag says in our words what is wrong with a flag, where pflag says it in those of its code.
func wrongFlag(_ *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var none *pflag.ValueRequiredError
	switch {
	case errors.As(err, &none):
		return fmt.Errorf("--%s needs a value", none.GetFlag().Name)
	case !errors.As(err, &value):
		return err
	}
	flag := value.GetFlag()
	want := value.Unwrap().Error()
	switch number := flag.Value.Type(); {
	case errors.Is(value, strconv.ErrRange):
		want = "the number is too large"
	case strings.HasPrefix(number, "int"):
		want = "want a whole number"
	case strings.HasPrefix(number, "uint"):
		want = "want a whole number that is not negative"
	case strings.HasPrefix(number, "float"):
		want = "want a number"
	case number == "bool":
		want = "want true or false"
	case strings.HasPrefix(want, "time: "):
		want = "want a duration such as 500ms, 30s or 5m"
	}
	return fmt.Errorf("--%s is %.40q: %s", flag.Name, value.GetValue(), want)
}

// missingFlags says which required flags are missing, if err is that of cobra.
func missingFlags(err error) error {
	names, ok := strings.CutPrefix(err.Error(), "required flag(s) ")
	names, all := strings.CutSuffix(names, " not set")
	if !ok || !all {
		return err
	}
	list := strings.Split(strings.ReplaceAll(names, `"`, ""), ", ")
	if len(list) == 1 {
		return fmt.Errorf("--%s is missing", list[0])
	}
	last := len(list) - 1
	return fmt.Errorf("--%s and --%s are missing", strings.Join(list[:last], ", --"), list[last])
}
