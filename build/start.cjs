'use strict'
/**
 * Starts portico in the image. What a gateway loads until it serves is one file, `gateway.start`, compiled by code that V8
 * made of it when the image was built: 80 ms of processor time, a third of what ES modules took. An operator starts from
 * `operator.start` likewise, for the memory that compiling takes. That code holds for one version of Node and its flags;
 * with another, or without any, V8 compiles the file anew. Chunks that come later are files, and share what is loaded.
 * Node's own cache of this kind goes by user and kind of processor, too, and has only functions that are compiled while a
 * module is.
 */
const { readFileSync } = require('node:fs')
const { join } = require('node:path')
const { compileFunction, Script } = require('node:vm')

const PARAMETERS = ['exports', 'require', 'module', '__filename', '__dirname']

/** Runs what starts from this file; gives its compiled script. */
function startFrom(file) {
  const filename = join(__dirname, file)
  const script = new Script(readFileSync(filename, 'latin1'), { filename, cachedData: readCode(filename) })
  const chunks = script.runInThisContext()
  const loaded = new Map()

  function load(name) {
    const known = loaded.get(name)
    if (known !== undefined) return known.exports
    const module = { exports: {} }
    loaded.set(name, module)
    const file = join(__dirname, name)
    const body = chunks[name] ?? compileFunction(readFileSync(file, 'utf8'), PARAMETERS, { filename: file })
    body(module.exports, requireFrom, module, file, __dirname)
    return module.exports
  }

  /** The bundle's chunks by this, Node's modules and files of packages by Node. */
  const requireFrom = (name) => (name.startsWith('./') && name.endsWith('.js') ? load(name.slice(2)) : require(name))

  load('portico.js')
  return script
}

/** Undefined where there is none. */
function readCode(filename) {
  try {
    return readFileSync(`${filename}.code`)
  } catch {
    return undefined
  }
}

const [, , command, plane] = process.argv
if (command === 'serve' && plane === 'gateway') module.exports = startFrom('gateway.start')
else if (command === 'operator') module.exports = startFrom('operator.start')
else require('./portico.js')
