package gateway_test

const childEnv = "GATEWAY_TEST_CHILD"

func child() {}
