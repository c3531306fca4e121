// Command calcA is an exec of the grid, for its demo and its tests: it adds up the numbers in input.txt, if there is one, and
// those of its arguments, writes the sum into out.txt and prints it.
//
//	go build -o /opt/grid/exe/calcA.exe ./examples/grid/calcA
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	sleep := flag.Duration("sleep", 0, "how long it takes")
	code := flag.Int("exit", 0, "exit code")
	flag.Parse()
	time.Sleep(*sleep)
	sum, numbers := 0, 0
	input, err := os.ReadFile("input.txt")
	if err != nil && !os.IsNotExist(err) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, word := range append(strings.Fields(string(input)), flag.Args()...) {
		if n, err := strconv.Atoi(word); err == nil {
			sum += n
			numbers++
		}
	}
	line := fmt.Sprintf("the sum of %d numbers is %d\n", numbers, sum)
	if err := os.WriteFile("out.txt", []byte(line), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(line)
	if *code != 0 {
		fmt.Fprintln(os.Stderr, "asked to fail")
		os.Exit(*code)
	}
}
