"""Small programs in a dozen languages: name, text, imports, beginnings of top-level definitions."""

from __future__ import annotations

from typing import NamedTuple


class Program(NamedTuple):
    """A source file and its outline."""

    name: str
    text: str
    imports: list[str]
    definitions: list[str]


PROGRAMS = [
    Program(
        "a.ts",
        """import { a } from './a'
export * from './b'
const fs = require('fs')

export interface I { x: number }
export default class A extends B {
  run(x: number): void {
  }
}
export const f = async (x: T): Promise<T> => x
function g() {}
type U = A & B
export enum E { A }
let value = 3
""",
        ["import { a } from './a'", "export * from './b'", "const fs = require('fs')"],
        [
            "export interface I",
            "export default class A",
            "export const f = async",
            "function g()",
            "type U =",
            "export enum E",
        ],
    ),
    Program(
        "a.go",
        """package a

import "fmt"

import (
\t"os"
\tx "net/http"
)

type T struct {
}

func (t *T) Run() error {
}

var v = 1
""",
        ['import "fmt"', '"os"', 'x "net/http"'],
        ["type T struct {", "func (t *T) Run() error {", "var v = 1"],
    ),
    Program(
        "a.rs",
        """use std::io;
pub(crate) use a::b;

pub struct S;
impl S {
    pub fn new() -> Self {
    }
}
pub async fn run() {}
enum E {}
macro_rules! m { }
""",
        ["use std::io;", "pub(crate) use a::b;"],
        ["pub struct S;", "impl S {", "pub async fn run() {}", "enum E {}", "macro_rules! m"],
    ),
    Program(
        "A.java",
        """package a.b;
import java.util.List;

public final class A {
    public static void main(String[] args) {
    }
    enum E { X }
}
""",
        ["package a.b;", "import java.util.List;"],
        ["public final class A {", "enum E { X }"],
    ),
    Program(
        "a.cpp",
        """#include <vector>
#include "a.h"
using namespace std;

struct P { int x; };
namespace n {
}
static int add(int a, int b) {
  if (a) {
  }
  return a + b;
}
void A::run() const {
}
int declared(int a);
""",
        ["#include <vector>", '#include "a.h"', "using namespace std;"],
        ["struct P { int x; };", "namespace n {", "static int add(int a, int b) {", "void A::run() const {"],
    ),
    Program(
        "A.cs",
        """using System;
using static System.Math;

namespace N
{
    public sealed class A : B
    {
        public async Task<int> Run(int x)
    }
    public record R(int X);
}
""",
        ["using System;", "using static System.Math;"],
        ["namespace N", "public sealed class A : B", "public record R(int X);"],
    ),
    Program(
        "a.rb",
        """require 'json'
require_relative 'b'

module M
  class A < B
    def run(x)
    end
  end
end
def top
end
""",
        ["require 'json'", "require_relative 'b'"],
        ["module M", "class A < B", "def top"],
    ),
    Program(
        "a.php",
        """<?php
namespace A\\B;
use C\\D;
require_once 'x.php';

final class A extends B
{
    public function run(): void
}
function f($x) {}
""",
        ["namespace A\\B;", "use C\\D;", "require_once 'x.php';"],
        ["final class A extends B", "function f($x) {}"],
    ),
    Program(
        "a.sh",
        """#!/bin/bash
source ./lib.sh
. ./more.sh

run() {
  echo
}
function stop {
}
""",
        ["source ./lib.sh", ". ./more.sh"],
        ["run() {", "function stop {"],
    ),
    Program(
        "a.py",
        """import os
from a import b

async def f():
    pass

class A(B):
    def m(self):
        import late
""",
        ["import os", "from a import b"],
        ["async def f():", "class A(B):"],
    ),
    Program(
        "a.swift",
        """import Foundation

public struct P {
    func run() {}
}
extension P {
}
func top() {}
""",
        ["import Foundation"],
        ["public struct P {", "extension P {", "func top() {}"],
    ),
]
