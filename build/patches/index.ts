/**
 * The bundle's patches of packages. Without each, an idle process costs 20 ms or 3 MiB more, or a request a tenth more;
 * docs/performance.md has the table.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Plugin, transform } from 'esbuild'
import { slimUndici } from './undici.ts'
import { compiledValidators } from './validators.ts'

/**
 * Lists the packages whose classes keep their names in the bundle, because they read `constructor.name` (oidc-provider
 * for its models, others for errors). esbuild's `keepNames` for everything would also name every closure when it is
 * made: 10 to 25 % more CPU for a cached list.
 */
const NAMED = /\/node_modules\/(oidc-provider|openid-client|oauth4webapi|jose)\/.*\.js$/

const namedClasses: Plugin = {
  name: 'names',
  setup(builder) {
    builder.onLoad({ filter: NAMED }, async ({ path }) => {
      const { code } = await transform(readFileSync(path, 'utf8'), {
        keepNames: true,
        target: 'node24',
        legalComments: 'none',
      })
      return { contents: code, loader: 'js' }
    })
  },
}

// Replaces @kubernetes/client-node and gaxios in the bundle. The operator uses the client only to find a cluster and to
// log in. Its generated classes, 16 MB of source, cost 14 MiB and 100 ms. gaxios would send the requests of
// @dot-i/k8s-operator, which sends none.

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

const slimClient: Plugin = {
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

/** The patches name files and exports of these versions, or rely on their output. */
export const PATCHED: Readonly<Record<string, string>> = {
  // validators.ts removes the errors from the code that ajv generates.
  ajv: '8.20.0',
  // kubernetes-client.ts replaces its objects and APIs, and gaxios.
  '@kubernetes/client-node': '2.0.1',
  // kubernetes-client.ts has the one API of the client that this package's base class makes, and none of its requests.
  '@dot-i/k8s-operator': '1.3.9',
  // undici.ts exports the names that our files import.
  undici: '8.12.4',
}

export const patches: readonly Plugin[] = [compiledValidators, slimClient, slimUndici, namedClasses]

/** Throws an Error if a package below `modules` has another version than the patched one. */
export function checkVersions(modules = join(import.meta.dirname, '../../node_modules')): void {
  for (const [name, patched] of Object.entries(PATCHED)) {
    const { version } = JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8'))
    if (version !== patched)
      throw new Error(
        `${name} ${version} is installed, and the bundle patches ${patched}: read what changed in what build/patches ` +
          'uses of it, then write the new version into build/patches/index.ts',
      )
  }
}
