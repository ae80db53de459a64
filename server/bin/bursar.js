#!/usr/bin/env node
// Old versions of Node read this file too, so it is JavaScript, and it imports no other file before the check.
import { existsSync, readFileSync } from 'node:fs'

const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
const needed = Number(/\d+/.exec(engines.node)[0])
if (Number(process.versions.node.split('.')[0]) < needed) {
  const advice = existsSync(new URL('../src', import.meta.url)) ? 'run ./scripts/setup && . scripts/env' : `install Node ${needed} from https://nodejs.org`
  console.error(`bursar: Bursar needs Node ${needed} or later, and this is Node ${process.versions.node}; ${advice}, and run the command again.`)
  process.exitCode = 1
} else await import('#cli')
