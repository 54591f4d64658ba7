import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'puppeteer-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
/** Rules that judge colours. All other rules give the same result in every colour scheme. */
export const COLOUR_RULES: readonly string[] = ['color-contrast', 'link-in-text-block']
const RULES: readonly string[] = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

/** The colour schemes of the checks, by name. */
export const LOOKS = [
  ['light', { name: 'prefers-color-scheme', value: 'light' }],
  ['dark', { name: 'prefers-color-scheme', value: 'dark' }],
  ['forced colours', { name: 'forced-colors', value: 'active' }],
] as const

/** Runs axe in a page, under the page’s own policy. Returns a line for each broken rule, of all rules or of some. */
export async function findViolations(page: Page, rules: readonly string[] = RULES): Promise<readonly string[]> {
  if (await page.evaluate("typeof axe === 'undefined'")) await page.evaluate(axe)
  return page.evaluate(
    `axe.run(document, {runOnly: ${JSON.stringify(rules)}, reporter: 'no-passes'}).then(({violations}) => violations.map(({id, nodes}) => id + ': ' + nodes.map(({html}) => html).join(' | ').slice(0, 300)))`,
  ) as Promise<readonly string[]>
}
