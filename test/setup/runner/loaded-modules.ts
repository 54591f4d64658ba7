/** Loaded before each test file (test/run.ts): has it load what was written in place of some modules (modules.ts). */
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** Names the folder of what was written; without it the modules are loaded as they are. */
export const MODULES_VARIABLE = 'PORTICO_TEST_MODULES'
/** File of the folder: names of other files in it, by the URLs of the modules that they stand in for. */
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
