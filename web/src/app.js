// Forms marked with data-swap are sent without leaving the page: the marked parts of the answer take the place of the same
// parts here. Without this script, or when anything goes wrong, the same form makes an ordinary page load.
;(() => {
  // Whoever has sent a form as a whole is on the way to another page: nothing here may call them back.
  let leaving = false
  let waiting
  // What somebody is typing into stays as it is, in its new place.
  const keep = (typing) => {
    const twin = document.getElementById(typing.id)
    if (!twin || twin === typing) return
    if (twin.tagName === typing.tagName && typing.matches('input, textarea, select')) {
      if (!twin.hasAttribute('aria-invalid')) typing.removeAttribute('aria-invalid')
      for (const { name, value } of twin.attributes) typing.setAttribute(name, value)
      twin.replaceWith(typing)
    }
    document.getElementById(typing.id).focus()
  }
  const swap = async (form, submitter, tries = 1) => {
    const selector = form.dataset.swap
    const body = new URLSearchParams(new FormData(form, submitter))
    // Not form.action: a button of that name would stand in its place.
    const action = submitter?.getAttribute('formaction') ?? form.getAttribute('action')
    for (const part of document.querySelectorAll(selector)) part.setAttribute('aria-busy', 'true')
    const answer = await fetch(action, { method: 'POST', body, headers: { accept: 'text/html' } })
    // Who only has to wait loses nothing by it: the same is asked again, with what was typed meanwhile.
    if ((answer.status === 429 || answer.status === 503) && tries < 4) {
      await new Promise((resolve) => setTimeout(resolve, 1000 * Math.min(Math.max(Number(answer.headers.get('retry-after')), 1), 20)))
      return leaving ? undefined : swap(form, submitter, tries + 1)
    }
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
    if (leaving) return
    const fresh = [...page.querySelectorAll(selector)]
    const old = [...document.querySelectorAll(selector)]
    // A refusal as a whole is a page of its own: it is shown as it came.
    if (fresh.length !== old.length && !answer.ok && !answer.redirected) {
      document.documentElement.replaceWith(document.adoptNode(page.documentElement))
      return document.getElementById('content')?.focus()
    }
    // Another page, or another place: go there as a browser would.
    if (fresh.length !== old.length || (answer.redirected && new URL(answer.url).pathname !== location.pathname)) return location.assign(answer.url)
    const typing = document.activeElement
    // What was typed while the answer was on its way is newer than the answer.
    const newer = [...form.elements]
      .filter((field) => field.matches('[type="text"], [type="email"], [type="number"], select, textarea'))
      .filter(({ name, value }) => body.has(name) && body.get(name) !== value)
      .map(({ name, value }) => [name, value])
    const ticks = [...form.elements]
      .filter(({ type, name, checked }) => type === 'checkbox' && checked !== body.has(name))
      .map(({ name, checked }) => [name, checked])
    const open = [...document.querySelectorAll('details[open]')].map((one) => one.querySelector('summary').textContent)
    // A part that says what it is for stays until it is for something else.
    const stays = (part, other) => part.dataset.keep !== undefined && part.dataset.keep === other.dataset.keep
    for (const [at, part] of old.entries()) {
      if (stays(part, fresh[at])) part.removeAttribute('aria-busy')
      else part.replaceWith(document.adoptNode(fresh[at]))
    }
    for (const [name, value] of newer) if (form.elements[name]) form.elements[name].value = value
    for (const [name, ticked] of ticks) if (form.elements[name]?.type === 'checkbox') form.elements[name].checked = ticked
    document.dispatchEvent(new Event('swapped'))
    for (const one of document.querySelectorAll('details')) if (open.includes(one.querySelector('summary').textContent)) one.open = true
    if (typing?.id) keep(typing)
    const said = document.getElementById('said')
    if (said) said.textContent = fresh.find((part) => part.dataset.says)?.dataset.says ?? ''
  }
  const send = (form, submitter) =>
    swap(form, submitter).catch(() => {
      if (leaving) return
      form.removeAttribute('data-swap')
      if (submitter) submitter.click()
      else form.submit()
    })
  let turn = Promise.resolve()
  document.addEventListener('submit', (event) => {
    const { target: form, submitter } = event
    if (!form.dataset.swap || submitter?.dataset.whole !== undefined) {
      // What is on its way is not sent again: its answer would be lost.
      if (leaving) return event.preventDefault()
      leaving = true
      clearTimeout(waiting)
      submitter?.setAttribute('aria-busy', 'true')
      return
    }
    event.preventDefault()
    turn = turn.then(() => send(form, submitter))
  })
  // A field marked with data-live presses the named button by itself, a moment after it was changed.
  document.addEventListener('input', ({ target }) => {
    if (target.dataset.live === undefined) return
    clearTimeout(waiting)
    waiting = setTimeout(() => document.getElementById(target.dataset.live)?.click(), 250)
  })
  // Whoever comes back finds nothing busy.
  addEventListener('pageshow', () => {
    leaving = false
    for (const button of document.querySelectorAll('button[aria-busy]')) button.removeAttribute('aria-busy')
  })
  // The page itself, and not the form that led to it.
  const load = () => location.replace(location.pathname + location.search)
  // A page that waits for something asks again, and shows what has become of it; when it is done it stays.
  const again = async () => {
    const seconds = Number(document.querySelector('main').dataset.refresh)
    if (!seconds) return
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    // Nobody's words are taken away while they write.
    const fields = [...document.querySelectorAll('main input:not([type="hidden"]), main textarea')]
    if (fields.some((field) => field === document.activeElement || field.value !== field.defaultValue)) return again()
    const answer = await fetch(location.href, { headers: { accept: 'text/html' }, redirect: 'manual' })
    // It leads elsewhere now, perhaps to the seller: that is for the browser to follow.
    if (answer.type === 'opaqueredirect' || answer.headers.has('refresh')) return load()
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
    const fresh = page.querySelector('main')
    // What it has become needs other scripts, and may load them under another policy.
    if (!fresh || page.scripts.length > document.scripts.length) return load()
    const before = document.querySelector('h1').textContent
    document.querySelector('main').replaceWith(document.adoptNode(fresh))
    document.title = page.title
    const heading = document.querySelector('h1').textContent
    const said = document.getElementById('said')
    if (said && heading !== before) said.textContent = heading
    return again()
  }
  again().catch(load)
  // What only waits for a press is pressed: without script, people do it.
  document.querySelector('[data-press]')?.click()
  const copy = async ({ target }) => {
    const button = target.closest?.('[data-copy]')
    if (!button) return
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent)
    const said = document.getElementById('said')
    if (said) said.textContent = button.dataset.says ?? ''
  }
  document.addEventListener('click', (event) => void copy(event))
})()
