/** The part of a browser that a login needs: it follows redirects one by one, and keeps cookies for each host. */
export class UserAgent {
  /** Headers of each request, as a browser extension may add them. */
  readonly headers: Record<string, string> = {}
  readonly #jars = new Map<string, Map<string, string>>()
  /** The visited URLs, in order. */
  readonly visited: string[] = []
  /** The consent pages so far, as HTML. */
  readonly questions: string[] = []
  /** The person's answer on consent pages; undefined leaves the page open. */
  answer: 'allow' | 'deny' | undefined = 'allow'
  /** The person's answers on pages that ask where to log in, in order. When they are used up, such a page stays open. */
  readonly choices: Record<string, string>[] = []

  /** Sends one request and follows no redirect. */
  get(url: string, headers: Record<string, string> = {}): Promise<Response> {
    return this.#send(url, { headers })
  }

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

  /** Follows redirects from `url` to an address for which `isEnd` holds, or to an answer that is no redirect. */
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

  /** Answers a consent page. Returns the answer to that, or the page if it is another one or stays open. */
  async #answered(at: string, response: Response): Promise<Response> {
    const page = await response.clone().text()
    const question = parseConsent(page, at)
    // Other pages have forms too.
    if (question === undefined || !page.includes('name="decision"')) return response
    this.questions.push(page)
    if (this.answer === undefined) return response
    const { action, token } = question
    return this.post(action, { token, decision: this.answer })
  }

  /** Answers a page that asks where to log in with the next choice. */
  async #chosen(at: string, response: Response): Promise<Response> {
    const { token = '' } = parseConsent(await response.text(), at) ?? {}
    return this.post(new URL('choose', at).href, { token, ...this.choices.shift() })
  }

  /** Sends the cookies of one host to another as well, like two replicas behind one name. */
  share(host: string, other: string): void {
    const jar = this.#jars.get(host) ?? new Map<string, string>()
    for (const one of [host, other]) this.#jars.set(one, jar)
  }

  /** Deletes the cookies of a host, which logs the user out there. */
  forget(host: string): void {
    this.#jars.delete(host)
  }

  /** Returns the header `Cookie` for a host. */
  cookies(host: string): string {
    return [...(this.#jars.get(host) ?? [])].map(([name, value]) => `${name}=${value}`).join('; ')
  }

  /** Returns the value of a host's cookie. */
  cookie(host: string, name: string): string | undefined {
    return this.#jars.get(host)?.get(name)
  }
}

/** Returns the URL and the token of a consent page's form, or undefined if there is none. */
export function parseConsent(
  page: string,
  at: string,
): { readonly action: string; readonly token: string } | undefined {
  const token = /name="token" value="([\w.-]+)"/.exec(page)?.[1]
  const action = /<form method="post" action="([^"]+)"/.exec(page)?.[1]
  return token === undefined || action === undefined ? undefined : { action: new URL(action, at).href, token }
}
