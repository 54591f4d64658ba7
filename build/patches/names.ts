/**
 * Lists the packages whose classes keep their names in the bundle, because they read `constructor.name` (oidc-provider
 * for its models, others for errors). esbuild's `keepNames` for everything would also name every closure when it is
 * made: 10 to 25 % more CPU for a cached list.
 */
import { readFileSync } from 'node:fs'
import { type Plugin, transform } from 'esbuild'

const NAMED = /\/node_modules\/(oidc-provider|openid-client|oauth4webapi|jose)\/.*\.js$/

export const namedClasses: Plugin = {
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
