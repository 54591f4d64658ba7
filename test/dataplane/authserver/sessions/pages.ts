import type { AuthServerUnderTest } from '../../../support/identity/auth-server.ts'
import type { UserAgent } from '../../../support/identity/user-agent.ts'

/** A page of linked clients and accounts as its user sees it. */
export interface OpenPage {
  readonly url: string
  readonly html: string
  /** The text without markup. */
  readonly text: string
  readonly token: string
  readonly isSignedIn: boolean
}

/** Opens the pages of linked clients and accounts in a browser. */
export class SessionsPage {
  readonly agent: UserAgent
  readonly url: string

  constructor(agent: UserAgent, base: string) {
    this.agent = agent
    this.url = `${base}/oauth/sessions`
  }

  static of({ issuer }: Pick<AuthServerUnderTest, 'issuer'>, agent: UserAgent): SessionsPage {
    return new SessionsPage(agent, issuer)
  }

  async open(url: string = this.url): Promise<OpenPage> {
    const { response, url: at } = await this.agent.follow(url, () => false)
    const html = (await response?.text()) ?? ''
    const token = /name="token" value="([\w-]+)"/.exec(html)?.[1] ?? ''
    return { url: at, html, text: readText(html), token, isSignedIn: html.includes('value="sign-out"') }
  }

  /** Signs in as the user whom the provider knows; returns the last page. */
  async signIn(): Promise<OpenPage> {
    const { token } = await this.open()
    return this.send({ token, action: 'sign-in' })
  }

  /** Posts a form and follows the redirects. */
  async send(fields: Record<string, string>): Promise<OpenPage> {
    const response = await this.agent.post(this.url, fields)
    const location = response.headers.get('location')
    if (location !== null) return this.open(new URL(location, this.url).href)
    const html = await response.text()
    return { url: this.url, html, text: readText(html), token: '', isSignedIn: false }
  }
}

/** Returns field and value of the button whose accessible name begins like this. */
export function findButton({ html }: Pick<OpenPage, 'html'>, label: string): Record<string, string> {
  const buttons = [...html.matchAll(/<button name="(\w+)" value="([\w-]+)"[^>]*aria-label="([^"]*)"/g)]
  const [, name, value] = buttons.find(([, , , own]) => own?.startsWith(label)) ?? []
  if (name === undefined || value === undefined) throw new Error(`there is no button ${label}`)
  return { [name]: value }
}

const readText = (html: string): string =>
  html
    .replace(/<(style|title)>[\s\S]*?<\/\1>/g, '')
    .replace(/<[^>]+>/g, ' ')
    .replace(/\s+/g, ' ')
