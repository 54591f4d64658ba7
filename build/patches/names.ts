/**
 * The packages whose classes keep their names in the bundle, because they read `constructor.name`. oidc-provider stores
 * its models by it; the others name their errors by it. esbuild renames a class if two modules have one of the same
 * name.
 *
 * esbuild's own `keepNames` for the whole bundle also names every closure when it is made: a list with a cached answer
 * took a tenth to a quarter more CPU.
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
