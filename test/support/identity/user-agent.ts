/** As much of a browser as a login needs: it follows redirects one by one, and keeps the cookies of each host. */
export class UserAgent {
  /** Sent with each request, as an extension of the browser does. */
  readonly headers: Record<string, string> = {}
  readonly #jars = new Map<string, Map<string, string>>()
  /** Where it was, in order. */
  readonly visited: string[] = []
  /** Consent pages so far, as HTML. */
  readonly questions: string[] = []
  /** What the person answers there; undefined: the page stays open. */
  answer: 'allow' | 'deny' | undefined = 'allow'
  /** What the person answers on pages that ask where to log in, in this order; when used up, such a page stays open. */
  readonly choices: Record<string, string>[] = []

  /** Sends one request and follows nothing. */
  get(url: string, headers: Record<string, string> = {}): Promise<Response> {
    return this.#send(url, { headers })
  }

  /** Sends a form. */
  post(url: string, fields: Record<string, string>): Promise<Response> {
    return this.#send(url, { method: 'POST', body: new URLSearchParams(fields) })
  }

  async #send(url: string, { headers = {}, ...init }: RequestInit & { headers?: Record<string, string> }) {
    const { host } = new URL(url)
    const jar = this.#jars.get(host) ?? new Map<string, string>()
    this.#jars.set(host, jar)
    this.visited.push(url)
    const cookie = this.cookies(host)
    const response = await fetch(url, {
      ...init,
      redirect: 'manual',
      headers: { accept: 'text/html', ...(cookie === '' ? {} : { cookie }), ...this.headers, ...headers },
    })
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (name === undefined || value === undefined) continue
      if (value === '' || /expires=Thu, 01 Jan 1970/i.test(line)) jar.delete(name)
      else jar.set(name, value)
    }
    return response
  }

  /** Follows redirects from `url` until one leads to an address that `isEnd` names, or to an answer that is none. */
  async follow(
    url: string,
    isEnd: (url: string) => boolean,
  ): Promise<{ readonly url: string; readonly response: Response | undefined }> {
    let at = url
    for (let step = 0; step < 20; step++) {
      if (isEnd(at)) return { url: at, response: undefined }
      const response = await this.get(at)
      let last = response.headers.has('location') ? response : await this.#answered(at, response)
      while (!last.headers.has('location') && this.choices.length > 0) last = await this.#chosen(at, last)
      const location = last.headers.get('location')
      if (location === null) return { url: at, response: last }
      await last.body?.cancel()
      at = new URL(location, at).href
    }
    throw new Error('too many redirects')
  }

  /** Answers a consent page; gives what that is answered, or the page where it is none or stays open. */
  async #answered(at: string, response: Response): Promise<Response> {
    const page = await response.clone().text()
    const question = consentOf(page, at)
    // Other pages have forms too.
    if (question === undefined || !page.includes('name="decision"')) return response
    this.questions.push(page)
    if (this.answer === undefined) return response
    const { action, token } = question
    return this.post(action, { token, decision: this.answer })
  }

  /** Answers a page that asks where to log in, with the next choice. */
  async #chosen(at: string, response: Response): Promise<Response> {
    const { token = '' } = consentOf(await response.text(), at) ?? {}
    return this.post(new URL('choose', at).href, { token, ...this.choices.shift() })
  }

  /** Sends the cookies of one host to another one too: two replicas behind one name. */
  share(host: string, other: string): void {
    const jar = this.#jars.get(host) ?? new Map<string, string>()
    for (const one of [host, other]) this.#jars.set(one, jar)
  }

  /** Drops the cookies of a host: whoever is logged in there is not any more. */
  forget(host: string): void {
    this.#jars.delete(host)
  }

  /** What it sends a host in the header `Cookie`. */
  cookies(host: string): string {
    return [...(this.#jars.get(host) ?? [])].map(([name, value]) => `${name}=${value}`).join('; ')
  }

  /** Value of a cookie that a host has set. */
  cookie(host: string, name: string): string | undefined {
    return this.#jars.get(host)?.get(name)
  }
}

/** Where the form of a consent page is posted to, and its token; undefined where there is no such form. */
export function consentOf(page: string, at: string): { readonly action: string; readonly token: string } | undefined {
  const token = /name="token" value="([\w.-]+)"/.exec(page)?.[1]
  const action = /<form method="post" action="([^"]+)"/.exec(page)?.[1]
  return token === undefined || action === undefined ? undefined : { action: new URL(action, at).href, token }
}
