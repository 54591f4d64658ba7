/**
 * The bundle's patches of packages. Without each, an idle process costs 20 ms or 3 MiB more, or a request a tenth more;
 * docs/performance.md has the table.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Plugin } from 'esbuild'
import { slimClient } from './kubernetes-client.ts'
import { namedClasses } from './names.ts'
import { slimUndici } from './undici.ts'
import { compiledValidators } from './validators.ts'

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
