// Hello is the program on the front page: one task, durable.
package main
