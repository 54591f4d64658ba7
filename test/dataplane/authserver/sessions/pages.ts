import type { AuthServerUnderTest } from '../../../support/identity/auth-server.ts'
import type { UserAgent } from '../../../support/identity/user-agent.ts'

/** A page of what is linked, as a person has it open. */
export interface OpenPage {
  readonly url: string
  readonly html: string
  /** Its words, without their marks. */
  readonly text: string
  readonly token: string
  readonly isSignedIn: boolean
}

/** What is linked, in a browser. */
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
    return { url: at, html, text: textOf(html), token, isSignedIn: html.includes('value="sign-out"') }
  }

  /** Signs in as whoever the provider knows; gives the page that this ends with. */
  async signIn(): Promise<OpenPage> {
    const { token } = await this.open()
    return this.send({ token, action: 'sign-in' })
  }

  /** Posts a form and follows where that leads. */
  async send(fields: Record<string, string>): Promise<OpenPage> {
    const response = await this.agent.post(this.url, fields)
    const location = response.headers.get('location')
    if (location !== null) return this.open(new URL(location, this.url).href)
    const html = await response.text()
    return { url: this.url, html, text: textOf(html), token: '', isSignedIn: false }
  }
}

/** The button of a page whose name begins so for those who don't see it: its field and value. */
export function buttonOf({ html }: Pick<OpenPage, 'html'>, label: string): Record<string, string> {
  const buttons = [...html.matchAll(/<button name="(\w+)" value="([\w-]+)"[^>]*aria-label="([^"]*)"/g)]
  const [, name, value] = buttons.find(([, , , own]) => own?.startsWith(label)) ?? []
  if (name === undefined || value === undefined) throw new Error(`there is no button ${label}`)
  return { [name]: value }
}

const textOf = (html: string): string =>
  html
    .replace(/<(style|title)>[\s\S]*?<\/\1>/g, '')
    .replace(/<[^>]+>/g, ' ')
    .replace(/\s+/g, ' ')
