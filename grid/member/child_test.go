package member_test

const childEnv = "GRID_MEMBER_TEST_CHILD"

func child() {}
