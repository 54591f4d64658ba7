/**
 * undici as the bundle has it: what our files import of it, a quarter of its source. fetch, caches, cookies, events, mocks
 * and interceptors stay out, of which nothing here makes use. `import('undici')` gives WebSocket, which needs fetch: a
 * chunk that is loaded when one is opened. A name that is missing here fails the build. The parser of HTTP/1, WebAssembly
 * as text, is a file of its own for `require`, with SIMD and without: one of them is read, at the first connection.
 */
import { copyFileSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Plugin } from 'esbuild'

const UNDICI = join(import.meta.dirname, 'node_modules/undici')
const NAMESPACE = 'undici'
const PARSERS = ['llhttp_simd-wasm.js', 'llhttp-wasm.js']
const fileOf = (parser: string) => `undici-${basename(parser, '.js')}.cjs`

/** Node's own build of undici is made with this name defined: without its experimental second parser. */
export const undiciDefines = { esbuildDetection: '1' }

/** Modules that stand for the package, by who imports it. */
const modules: Readonly<Record<string, () => string>> = {
  ours: () => `
    import request from './lib/api/api-request.js'
    import util from './lib/core/util.js'
    import errors from './lib/core/errors.js'
    import buildConnector from './lib/core/connect.js'
    import Agent from './lib/dispatcher/agent.js'
    import Pool from './lib/dispatcher/pool.js'
    import { getGlobalDispatcher } from './lib/global.js'
    const { InvalidArgumentError } = errors
    ${makeDispatcher()}
    const requestBy = makeDispatcher(request)
    export { Agent, buildConnector, errors, Pool, requestBy as request }
  `,
  later: () => `
    import { ping, WebSocket } from './lib/web/websocket/websocket.js'
    export { ping, WebSocket }
  `,
  // It makes agents for the operator, and lets the operator send.
  kubernetes: () => `
    import Agent from './lib/dispatcher/agent.js'
    import ProxyAgent from './lib/dispatcher/proxy-agent.js'
    export { Agent, ProxyAgent }
    export function fetch() {
      throw new Error('no request is sent by way of @kubernetes/client-node')
    }
  `,
}

/** Of undici's index.js: makes of a dispatcher's method a function that takes a URL. */
function makeDispatcher(): string {
  const found = /^function makeDispatcher [\s\S]*?^}$/m.exec(readFileSync(join(UNDICI, 'index.js'), 'utf8'))
  if (found === null) throw new Error('undici has no makeDispatcher any more')
  return found[0]
}

const CLIENT = /\/undici\/lib\/dispatcher\/client\.js$/
const REQUIRES_HTTP2 = "const connectH2 = require('./client-h2.js')"

/** The client with HTTP/2 loaded when a server has chosen it: Node's own takes 6 ms to load, and backends are asked for none. */
function clientOf(path: string): string {
  const source = readFileSync(path, 'utf8')
  if (!source.includes(REQUIRES_HTTP2)) throw new Error('undici loads HTTP/2 in another way now')
  return source.replace(REQUIRES_HTTP2, "const connectH2 = (...args) => require('./client-h2.js')(...args)")
}

/** Writes the files that the bundle requires into `outdir`. */
export function copyParsers(outdir: string): void {
  for (const parser of PARSERS) copyFileSync(join(UNDICI, 'lib/llhttp', parser), join(outdir, fileOf(parser)))
}

export const slimUndici: Plugin = {
  name: 'undici',
  setup(builder) {
    builder.onResolve({ filter: /^undici$/ }, ({ kind, importer }) => {
      const own = importer.includes('/@kubernetes/') ? 'kubernetes' : 'ours'
      return { path: kind === 'dynamic-import' ? 'later' : own, namespace: NAMESPACE }
    })
    builder.onLoad({ filter: /.*/, namespace: NAMESPACE }, ({ path }) => ({
      contents: (modules[path] as () => string)(),
      resolveDir: UNDICI,
    }))
    builder.onLoad({ filter: CLIENT }, ({ path }) => ({ contents: clientOf(path) }))
    builder.onResolve({ filter: /\/llhttp(_simd)?-wasm\.js$/ }, ({ path }) => ({
      path: `./${fileOf(path)}`,
      external: true,
    }))
  },
}
