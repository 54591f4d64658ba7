// The two islands of the site: search and the choice of a version. Classic script, so that it runs from file:.
{
  const { base, path, version } = document.documentElement.dataset

  /** Finds pages and their sections in an index that the site brings, without a server. */
  class SiteSearch extends HTMLElement {
    connectedCallback() {
      const input = document.createElement('input')
      input.type = 'search'
      input.placeholder = 'Search (press /)'
      input.setAttribute('aria-label', 'Search the documentation')
      const hits = document.createElement('ul')
      hits.className = 'hits'
      hits.hidden = true
      hits.setAttribute('aria-label', 'Results')
      const status = document.createElement('span')
      status.className = 'skip'
      status.setAttribute('role', 'status')
      this.append(input, hits, status)
      input.addEventListener('input', () => this.show(input.value.trim(), hits, status))
      this.addEventListener('keydown', (event) => {
        const links = [...hits.querySelectorAll('a')]
        const at = links.indexOf(document.activeElement)
        if (event.key === 'Escape') {
          hits.hidden = true
          input.focus()
        } else if (event.key === 'ArrowDown') links[Math.min(at + 1, links.length - 1)]?.focus()
        else if (event.key === 'ArrowUp') (at > 0 ? links[at - 1] : input).focus()
        else if (event.key === 'Enter' && document.activeElement === input) links[0]?.click()
        else return
        event.preventDefault()
      })
      this.addEventListener('focusout', (event) => {
        if (!this.contains(event.relatedTarget)) hits.hidden = true
      })
      input.addEventListener('focus', () => {
        hits.hidden = hits.childElementCount === 0
      })
      addEventListener('keydown', (event) => {
        if (event.key !== '/' || event.target.matches?.('input, textarea, select')) return
        event.preventDefault()
        input.focus()
      })
    }

    get index() {
      const { options, data } = globalThis.porticoIndex
      globalThis.porticoSearch ??= globalThis.MiniSearch.loadJS(data, options)
      return globalThis.porticoSearch
    }

    show(words, hits, status) {
      hits.replaceChildren()
      hits.hidden = words === ''
      if (words === '') return
      const found = this.index.search(words, {
        prefix: true,
        fuzzy: 0.15,
        boost: { heading: 4, page: 2 },
        combineWith: 'AND',
      })
      for (const { href, heading, page } of found.slice(0, 12)) {
        const link = document.createElement('a')
        link.href = base + href
        link.textContent = heading
        const place = document.createElement('small')
        place.textContent = page
        link.append(place)
        const item = document.createElement('li')
        item.append(link)
        hits.append(item)
      }
      status.textContent = found.length === 0 ? 'Nothing found' : `${found.length} results`
      if (found.length === 0) {
        const nothing = document.createElement('p')
        nothing.textContent = `Nothing found for “${words}”. Try a field, a reason such as AudienceMissing, or a command.`
        hits.append(nothing)
      }
    }
  }

  /** Leads to the same page of another version, or to its first page where it lacks this one. */
  class SiteVersions extends HTMLElement {
    connectedCallback() {
      const versions = globalThis.porticoVersions ?? []
      if (versions.length < 2) return
      const select = document.createElement('select')
      select.setAttribute('aria-label', 'Version')
      for (const { name } of versions) select.add(new Option(name, name, name === version, name === version))
      select.addEventListener('change', () => {
        const { name, pages } = versions.find((one) => one.name === select.value)
        location.href = `${base}../${name}/${pages.includes(path) ? path : 'index.html'}`
      })
      this.append(select)
    }
  }

  addEventListener('DOMContentLoaded', () => {
    customElements.define('site-search', SiteSearch)
    customElements.define('site-versions', SiteVersions)
    const menu = document.querySelector('nav.pages > details')
    if (matchMedia('(max-width: 48rem)').matches) menu.open = false
    document.querySelector('nav.pages [aria-current]')?.scrollIntoView?.({ block: 'nearest' })
  })
}
