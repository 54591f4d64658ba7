/** As much of a browser as a login needs: it follows redirects one by one, and keeps the cookies of each host. */
export class UserAgent {
  readonly #jars = new Map<string, Map<string, string>>()
  /** Where it was, in order. */
  readonly visited: string[] = []

  /** Sends one request and follows nothing. */
  async get(url: string, headers: Record<string, string> = {}): Promise<Response> {
    const { host } = new URL(url)
    const jar = this.#jars.get(host) ?? new Map<string, string>()
    this.#jars.set(host, jar)
    this.visited.push(url)
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { accept: 'text/html', ...(cookie === '' ? {} : { cookie }), ...headers },
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
      const location = response.headers.get('location')
      if (location === null) return { url: at, response }
      await response.body?.cancel()
      at = new URL(location, at).href
    }
    throw new Error('too many redirects')
  }

  /** Value of a cookie that a host has set. */
  cookie(host: string, name: string): string | undefined {
    return this.#jars.get(host)?.get(name)
  }
}
