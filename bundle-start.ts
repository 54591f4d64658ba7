import type { Chunk } from './bundle-commonjs.ts'

/** What starts from one file, and the sources whose chunks are in it: what is loaded until it serves, or works. */
export const STARTS = {
  // Its configuration is YAML.
  gateway: ['cli/main.ts', 'cli/serve.ts', 'dataplane/gateway/index.ts', 'dataplane/config/read/yaml.ts'],
  operator: ['cli/main.ts', 'cli/operator/index.ts'],
} as const
export type Started = keyof typeof STARTS

/** The file of what starts from one: image/start.cjs reads it, with the code that V8 has made of it. */
export const startFile = (started: Started): string => `${started}.start`

/**
 * A JavaScript expression of an object: a function a chunk, by its name, that takes what Node gives CommonJS modules. It is
 * Latin-1, for Node to hold it as it is read; throws an Error where a chunk isn't.
 */
export function startText(chunks: readonly Chunk[]): string {
  const functions = chunks.map(({ name, code }) => {
    if (/[^\0-\u00ff]/.test(code)) throw new Error(`${name} has characters beyond Latin-1`)
    return `${JSON.stringify(name)}(exports,require,module,__filename,__dirname){${code}}`
  })
  return `({${functions.join(',\n')}})`
}
