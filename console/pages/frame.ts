import { type Child, type Element, h, htmlText, visible } from './element.ts'

/** The frame of a page: its location, the viewer and the navigation. */
export interface Frame {
  readonly title: string
  /** The path of the page, which highlights its entry in the navigation. */
  readonly path: string
  /** The cluster or folder; undefined before a login. */
  readonly place?: string | undefined
  readonly viewer?: string | undefined
  /** The token of the logout form; undefined if the viewer can't log out. */
  readonly logout?: string | undefined
  readonly assets: { readonly style: string; readonly script: string }
  /** Seconds between refreshes; undefined for a page that is not refreshed. */
  readonly refresh?: number | undefined
  readonly query?: string | undefined
  /** The time of the facts, as displayed. */
  readonly time: string
}

const PLACES: readonly (readonly [path: string, name: string, keys: string])[] = [
  ['/', 'Home', 'h'],
  ['/workloads', 'Workloads', 'w'],
  ['/map', 'Map', 'm'],
  ['/access', 'Access', 'a'],
  ['/changes', 'Changes', 'c'],
  ['/usage', 'Usage', 'u'],
  ['/catalog', 'Catalog', 't'],
  ['/help', 'Help', '?'],
]

const mark = h(
  'svg',
  {
    class: 'mark',
    viewBox: '0 0 24 24',
    fill: 'none',
    stroke: 'currentColor',
    'stroke-width': 2,
    'stroke-linecap': 'round',
    'stroke-linejoin': 'round',
    'aria-hidden': 'true',
  },
  h('path', { d: 'M3 8 12 3l9 5v2H3z' }),
  h('path', { d: 'M5 10v9M10 10v9M14 10v9M19 10v9M3 21h18' }),
)

const isAt = (path: string, place: string): boolean =>
  place === '/'
    ? path === '/'
    : path === place || path.startsWith(`${place}/`) || (place === '/workloads' && path.startsWith('/ns/'))

function navigation(path: string): Element {
  const items = PLACES.map(([href, name, key]) => {
    const current = isAt(path, href) ? 'page' : undefined
    return h('li', {}, h('a', { href, 'data-go': key, 'aria-current': current }, name))
  })
  return h('nav', { class: 'main', 'aria-label': 'Console' }, h('ul', {}, items))
}

const find = (query: string | undefined): Element =>
  h(
    'form',
    { class: 'find', action: '/workloads', method: 'get', role: 'search' },
    h('input', { type: 'hidden', name: 'kind', value: 'all' }),
    h('input', {
      type: 'search',
      name: 'q',
      value: query ?? '',
      placeholder: 'Search  /',
      'aria-label': 'Search by name, namespace or reason',
      'data-search': true,
    }),
  )

function where({ place, viewer, logout }: Frame): Element {
  return h(
    'div',
    { class: 'where' },
    h('b', {}, place ?? ''),
    viewer !== undefined && h('div', {}, viewer),
    logout !== undefined &&
      h(
        'form',
        { action: '/logout', method: 'post' },
        h('input', { type: 'hidden', name: 'form', value: logout }),
        h('button', { class: 'quiet mini' }, 'Log out'),
      ),
  )
}

/** Returns the title of a page for the browser's tab. */
export const pageTitle = (title: string): string => visible(`${title} · Portico`)

/** Returns the HTML of a whole page. */
export function pageText(frame: Frame, content: Child): string {
  const { title, assets, path, refresh, query } = frame
  const page = h(
    'html',
    { lang: 'en' },
    h(
      'head',
      {},
      h('meta', { charset: 'utf-8' }),
      h('meta', { name: 'viewport', content: 'width=device-width, initial-scale=1' }),
      h('title', {}, pageTitle(title)),
      h('link', { rel: 'icon', href: '/assets/icon.svg' }),
      h('link', { rel: 'stylesheet', href: assets.style }),
      h('script', { type: 'module', src: assets.script }),
    ),
    h(
      'body',
      { class: frame.place === undefined ? 'alone' : undefined },
      h('a', { class: 'skip', href: '#main' }, 'Skip to the content'),
      h(
        'header',
        { class: 'rail' },
        h(
          'div',
          { class: 'stay' },
          h('div', { class: 'brand' }, mark, h('a', { href: '/' }, 'Portico')),
          frame.place !== undefined && [where(frame), find(query), navigation(path)],
        ),
      ),
      h('main', { id: 'main', tabindex: -1, 'data-refresh': refresh }, content),
      h(
        'footer',
        {},
        refresh !== undefined && h('span', { 'data-asof': true }, `As of ${frame.time}`),
        frame.place !== undefined && [h('a', { href: '/help/keys' }, 'Keys'), h('a', { href: '/openapi.json' }, 'API')],
      ),
    ),
  )
  return `<!doctype html>${htmlText(page)}`
}
