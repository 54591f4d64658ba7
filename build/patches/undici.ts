/**
 * Replaces undici in the bundle by the parts that our files import. The rest (fetch, caches, cookies, mocks …) costs an
 * idle proxy 3.0 MiB and 28 ms. `import('undici')` gives WebSocket, which needs fetch, in a chunk of its own. A missing
 * name fails the build.
 */
import { join } from 'node:path'
import type { Plugin } from 'esbuild'

const UNDICI = join(import.meta.dirname, '../../node_modules/undici')
const NAMESPACE = 'undici'

/** Defined as in Node's own build of undici: without its experimental second parser. */
export const undiciDefines = { esbuildDetection: '1' }

/** The modules that replace the package, by importer. */
const modules: Readonly<Record<string, string>> = {
  // `request` is made as in undici's index.js.
  ours: `
    import api from './lib/api/api-request.js'
    import util from './lib/core/util.js'
    import errors from './lib/core/errors.js'
    import buildConnector from './lib/core/connect.js'
    import Agent from './lib/dispatcher/agent.js'
    import Pool from './lib/dispatcher/pool.js'
    import { getGlobalDispatcher } from './lib/global.js'
    function request(target, { dispatcher = getGlobalDispatcher(), ...options } = {}) {
      const { origin, pathname, search } = util.parseURL(target)
      const method = options.method ?? (options.body ? 'PUT' : 'GET')
      return api.call(dispatcher, { ...options, origin, path: pathname + search, method })
    }
    export { Agent, buildConnector, errors, Pool, request }
  `,
  later: `
    import { ping, WebSocket } from './lib/web/websocket/websocket.js'
    export { ping, WebSocket }
  `,
  // The package makes agents for the operator, and leaves sending to the operator.
  kubernetes: `
    import Agent from './lib/dispatcher/agent.js'
    import ProxyAgent from './lib/dispatcher/proxy-agent.js'
    export { Agent, ProxyAgent }
    export function fetch() {
      throw new Error('no request is sent by way of @kubernetes/client-node')
    }
  `,
}

export const slimUndici: Plugin = {
  name: 'undici',
  setup(builder) {
    builder.onResolve({ filter: /^undici$/ }, ({ kind, importer }) => {
      const own = importer.includes('/@kubernetes/') ? 'kubernetes' : 'ours'
      return { path: kind === 'dynamic-import' ? 'later' : own, namespace: NAMESPACE }
    })
    builder.onLoad({ filter: /.*/, namespace: NAMESPACE }, ({ path }) => ({
      contents: modules[path] as string,
      resolveDir: UNDICI,
    }))
  },
}
