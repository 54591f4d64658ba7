import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'puppeteer-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

/** The colour schemes in which pages are looked at, by name. */
export const LOOKS = [
  ['light', { name: 'prefers-color-scheme', value: 'light' }],
  ['dark', { name: 'prefers-color-scheme', value: 'dark' }],
  ['forced colours', { name: 'forced-colors', value: 'active' }],
] as const

/** Runs axe in a page, under the page’s own policy; returns a line for each rule that is broken. */
export async function violations(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe)
  return page.evaluate(
    `axe.run(document, {runOnly: ${JSON.stringify(RULES)}}).then(({violations}) => violations.map(({id, nodes}) => id + ': ' + nodes.map(({html}) => html).join(' | ').slice(0, 300)))`,
  ) as Promise<readonly string[]>
}
