/**
 * @kubernetes/client-node and gaxios as the bundle has them. The operator takes from the client how a cluster is found
 * and how one logs in to it; its classes for every object and API, 16 MB of source that would be loaded with it, stay
 * out: they cost an operator 14 MiB and 100 ms. gaxios sends the requests of @dot-i/k8s-operator, of which the operator
 * lets it make none.
 */
import { join } from 'node:path'
import type { Plugin } from 'esbuild'

const CLIENT = join(import.meta.dirname, '../../node_modules/@kubernetes/client-node')
const NAMESPACE = 'kubernetes-client'

/** Modules that stand for a package, or for the client's generated part. */
const modules: Readonly<Record<string, string>> = {
  // The base class of @dot-i/k8s-operator makes itself a client of this API, which nobody uses.
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
