import { writeFile } from 'node:fs/promises'
import { type Browser, launch } from 'puppeteer-core'
import { BROWSERS } from '../setup/needs.ts'
import { programPath } from '../setup/program.ts'

export interface Look {
  /** The document after its layout. */
  readonly dom: string
  /** The browser's console messages, such as refused content and errors of scripts. */
  readonly console: string
  /** A screenshot as PNG. */
  readonly picture: Buffer
}

export interface LookOptions {
  readonly width?: number
  readonly height?: number
  readonly dark?: boolean
  /** The file for the screenshot, if people should see it. */
  readonly keep?: string
  /** The browser to use; by default one is started for this page. */
  readonly browser?: Browser
}

/** Opens a page in Chromium. */
export async function openPage(url: string, { browser, ...options }: LookOptions = {}): Promise<Look> {
  if (browser !== undefined) return lookIn(browser, url, options)
  const own = await startBrowser()
  try {
    return await lookIn(own, url, options)
  } finally {
    await own.close()
  }
}

async function lookIn(
  browser: Browser,
  url: string,
  { width = 1200, height = 900, dark = false, keep }: LookOptions,
): Promise<Look> {
  const page = await browser.newPage()
  try {
    const messages: string[] = []
    page.on('console', (message) => {
      // The status of the page itself is checked elsewhere.
      if (message.location().url !== url || !message.text().startsWith('Failed to load')) messages.push(message.text())
    })
    page.on('pageerror', (error) => messages.push(String(error)))
    await page.setViewport({ width, height })
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }])
    await page.goto(url)
    const picture = Buffer.from(await page.screenshot())
    if (keep !== undefined) await writeFile(keep, picture)
    return { dom: await page.content(), console: messages.join('\n'), picture }
  } finally {
    await page.close()
  }
}

const browserPath = (): string => BROWSERS.map(programPath).find((path) => path !== undefined) ?? 'chromium'

/** Starts a Chromium for a test. Its data is removed when it is closed. */
export const startBrowser = (...args: readonly string[]): Promise<Browser> =>
  launch({
    executablePath: browserPath(),
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', ...args],
    timeout: 60_000,
  })
