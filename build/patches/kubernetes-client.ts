/**
 * Replaces @kubernetes/client-node and gaxios in the bundle. The operator uses the client only to find a cluster and to
 * log in. Its generated classes, 16 MB of source, cost 14 MiB and 100 ms. gaxios would send the requests of
 * @dot-i/k8s-operator, which sends none.
 */
import { join } from 'node:path'
import type { Plugin } from 'esbuild'

const CLIENT = join(import.meta.dirname, '../../node_modules/@kubernetes/client-node')
const NAMESPACE = 'kubernetes-client'

const modules: Readonly<Record<string, string>> = {
  // The base class of @dot-i/k8s-operator makes a client of this API and never uses it.
  '@kubernetes/client-node': `
    import './dist/polyfill.js'
    export * from './dist/config.js'
    export * from './dist/gen/http/http.js'
    export class CoreV1Api {}
  `,
  generated: `
    export { createConfiguration } from './dist/gen/configuration.js'
    export * from './dist/gen/servers.js'
  `,
  gaxios: `
    export const instance = {
      request() {
        throw new Error('no request is sent by way of @dot-i/k8s-operator')
      },
    }
  `,
}

export const slimClient: Plugin = {
  name: 'kubernetes-client',
  setup(builder) {
    builder.onResolve({ filter: /^(@kubernetes\/client-node|gaxios)$/ }, ({ path }) => ({ path, namespace: NAMESPACE }))
    builder.onResolve({ filter: /^\.\/gen\/index\.js$/ }, ({ resolveDir }) =>
      resolveDir === join(CLIENT, 'dist') ? { path: 'generated', namespace: NAMESPACE } : undefined,
    )
    builder.onLoad({ filter: /.*/, namespace: NAMESPACE }, ({ path }) => ({
      contents: modules[path] as string,
      resolveDir: CLIENT,
    }))
  },
}
