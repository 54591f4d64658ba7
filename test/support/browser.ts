import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Browser, launch } from 'puppeteer-core'
import { BROWSERS } from '../setup/needs.ts'
import { programPath } from '../setup/program.ts'

const run = promisify(execFile)

export interface Look {
  /** The document as the browser has it, after it was laid out. */
  readonly dom: string
  /** What the browser says in its console: refused content among it. */
  readonly console: string
  /** PNG. */
  readonly picture: Buffer
}

export interface LookOptions {
  readonly width?: number
  readonly height?: number
  readonly dark?: boolean
  /** Where the picture is kept for people to look at. */
  readonly keep?: string
}

/** Opens a page in Chromium. */
export async function look(
  url: string,
  { width = 1200, height = 900, dark = false, keep }: LookOptions = {},
): Promise<Look> {
  const folder = await mkdtemp(join(tmpdir(), 'portico-browser-'))
  const picture = keep ?? join(folder, 'page.png')
  const options = (profile: string, more: string) => [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--no-first-run',
    '--disable-background-networking',
    '--hide-scrollbars',
    '--enable-logging=stderr',
    `--user-data-dir=${join(folder, profile)}`,
    `--window-size=${width},${height}`,
    `--blink-settings=preferredColorScheme=${dark ? 0 : 1}`,
    more,
    url,
  ]
  const browser = browserPath()
  const limits = { timeout: 60_000, maxBuffer: 1 << 26 }
  try {
    const dom = await run(browser, options('first', '--dump-dom'), limits)
    await run(browser, options('second', `--screenshot=${picture}`), limits)
    return {
      dom: dom.stdout,
      console: dom.stderr
        .split('\n')
        .filter((line) => line.includes('CONSOLE'))
        .join('\n'),
      picture: await readFile(picture),
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const browserPath = (): string => BROWSERS.map(programPath).find((path) => path !== undefined) ?? 'chromium'

/** Starts a Chromium that a test drives. What it keeps is gone when it is closed. */
export const startBrowser = (...args: readonly string[]): Promise<Browser> =>
  launch({
    executablePath: browserPath(),
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', ...args],
    timeout: 60_000,
  })
