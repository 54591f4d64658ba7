import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Hono } from 'hono'
import { CONSOLE_STYLE } from '../pages/style.ts'

const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#5b6ee0" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"><path d="M3 8 12 3l9 5v2H3z"/><path d="M5 10v9M10 10v9M14 10v9M19 10v9M3 21h18"/></svg>'

/**
 * Reads the assets of the pages. The paths of `style` and `script` contain the hash of the content, so browsers may cache
 * them without limit.
 */
export function readAssets() {
  const source = readFileSync(new URL('../browser/console.js', import.meta.url), 'utf8')
  const hashedPath = (text: string, type: string) =>
    `/assets/console.${hash('sha256', text, 'hex').slice(0, 16)}.${type}`
  const [style, script] = [hashedPath(CONSOLE_STYLE, 'css'), hashedPath(source, 'js')]
  const files: Readonly<Record<string, readonly [type: string, text: string]>> = {
    [style]: ['text/css; charset=utf-8', CONSOLE_STYLE],
    [script]: ['text/javascript; charset=utf-8', source],
    '/assets/icon.svg': ['image/svg+xml', ICON],
  }
  return {
    style,
    script,
    routes(app: Hono): void {
      app.get('/assets/:name', (c) => {
        const file = Object.hasOwn(files, c.req.path) ? files[c.req.path] : undefined
        if (file === undefined) return c.notFound()
        c.header('content-type', file[0])
        c.header('cache-control', 'public, max-age=31536000, immutable')
        return c.body(file[1])
      })
    },
  }
}
