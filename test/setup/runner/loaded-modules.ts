/** Loaded before each test file (test/run.ts). Replaces some modules by the written ones (modules.ts). */
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** Environment variable with the folder of replacements; without it the original modules are loaded. */
export const MODULES_VARIABLE = 'PORTICO_TEST_MODULES'
/** File in the folder that maps the URLs of modules to the names of their replacements. */
export const MAP_FILE = 'map.json'

const folder = process.env[MODULES_VARIABLE]
if (folder !== undefined) {
  const files = JSON.parse(readFileSync(join(folder, MAP_FILE), 'utf8')) as Readonly<Record<string, string>>
  registerHooks({
    resolve(name, context, next) {
      const found = next(name, context)
      const file = context.conditions.includes('import') ? files[found.url] : undefined
      return file === undefined ? found : { ...found, url: pathToFileURL(join(folder, file)).href, format: 'module' }
    },
  })
}
