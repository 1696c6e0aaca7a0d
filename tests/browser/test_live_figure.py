"""LiveFigure in JupyterLab: drawn, as wide as its place, in both themes, readable for screen readers."""

import pytest

from tests.kinds import slow

pytestmark = pytest.mark.browser

CELLS = (
    "import numpy as np, ipywidgets, plotly.graph_objects as go\nfrom lplab.widgets import LiveFigure",
    """x = np.linspace(0, 10, 200)
def figure(alt):
    layout = dict(height=240, meta={'alt': alt}, title='A sine', yaxis_range=[-1.1, 1.1])
    return LiveFigure(go.Figure(go.Scatter(x=x, y=np.sin(x)), layout))
first, second = figure('a sine'), figure('the same again')
first""",
    "box = ipywidgets.Box([second], layout=ipywidgets.Layout(width='500px')); box",
    "slider = ipywidgets.IntSlider(description='k', max=20)\n"
    """def redraw(change):
    with first.batch_update():
        first.data[0].y = np.sin(x * (1 + change.new))
        first.layout.meta = {'alt': f'a sine, {change.new} times as fast'}
slider.observe(redraw, 'value')
slider""",
    "first",
    """pair = LiveFigure(go.Figure(
    [go.Scatter(x=x, y=np.sin(x), name='sine'), go.Scatter(x=x, y=np.cos(x), name='cosine', line_color='red')],
    dict(height=260, title='Two waves', showlegend=True)))
def change(k):  # something of both traces, then of one alone
    with pair.batch_update():
        pair.data[0].y, pair.data[1].name = np.sin(k * x), f'the other, {k}'
    with pair.batch_update():
        pair.data[0].line.color = f'rgb(0, 0, {k})'
pair""",
    "later = ipywidgets.Box(layout=ipywidgets.Layout(width='100%')); later",  # for a figure that is shown once more
)


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.wait_for_function("() => document.querySelectorAll('.lp-fig .cartesianlayer .subplot').length === 4")
    return notebook


def plots(notebook):
    return notebook.page.locator(".js-plotly-plot")


def test_one_copy_of_plotly_serves_all_figures(notebook):
    assert notebook.python("first._bundle is second._bundle")
    assert notebook.page.evaluate("() => globalThis.__lplab.plotly.size") == 1


def test_figure_follows_the_width_of_its_container(notebook):
    close = """([k, width, within]) => Math.abs(document.querySelectorAll('.js-plotly-plot')[k]
        .querySelector('.main-svg').getBoundingClientRect().width - width) <= within"""
    cell = notebook.page.locator(".jp-OutputArea-output").first.bounding_box()["width"]
    notebook.sees(close, True, [0, cell, 30])
    notebook.sees(close, True, [1, 500, 10])
    notebook.python("setattr(box.layout, 'width', '350px')")
    notebook.sees(close, True, [1, 350, 10])
    assert plots(notebook).nth(1).locator(".main-svg").first.bounding_box()["height"] == 240


def test_alt_text_follows_the_figure(notebook):
    plot = plots(notebook).first
    assert plot.get_attribute("role") == "img"
    assert plot.get_attribute("aria-label") == "a sine"
    handle = notebook.page.locator("[role=slider]").first
    handle.focus()
    path = plot.locator(".js-line").first
    before = path.get_attribute("d")
    notebook.page.keyboard.press("ArrowRight")
    notebook.page.locator("[aria-label='a sine, 1 times as fast']").first.wait_for()
    assert path.get_attribute("d") != before


def test_ink_follows_the_theme(notebook):
    def ink():
        title = plots(notebook).first.locator("text.gtitle")
        return title.evaluate("e => getComputedStyle(e).fill"), notebook.page.evaluate(
            "() => getComputedStyle(document.querySelector('.main-svg')).backgroundColor"
        )

    light = ink()
    notebook.theme("Dark")
    dark = ink()
    notebook.theme("Light")
    assert light[0] != dark[0]
    assert light[1] == dark[1] == "rgba(0, 0, 0, 0)"


def test_a_second_view_shows_the_same(notebook):
    path = "k => document.querySelectorAll('.js-plotly-plot')[k].querySelector('.js-line').getAttribute('d')"
    notebook.sees(f"() => ({path})(0) === ({path})(2)", True)  # both have drawn what another test may have changed
    before = notebook.page.evaluate(path, 0)
    notebook.python("first.data[0].update(y=x / 10) and None")
    notebook.page.wait_for_function(f"old => ({path})(0) !== old", arg=before)
    notebook.sees(path, notebook.page.evaluate(path, 0), 2)


def test_what_a_change_does_not_name_stays(notebook):
    notebook.python("pair.data[0].update(name='sine') and None")  # another test of this file may have changed it
    notebook.python(
        'exec("with pair.batch_update():\\n'
        "    pair.data[0].y = np.sin(2 * x); pair.data[1].name = 'its other half'; pair.layout.xaxis.title = 'time'\")"
    )
    plot = plots(notebook).nth(3)
    plot.locator("text.legendtext", has_text="its other half").wait_for()
    assert plot.locator("text.legendtext").all_text_contents() == ["sine", "its other half"]
    assert plot.locator("text.gtitle").text_content() == "Two waves"
    assert plot.locator("text.xtitle").text_content() == "time"
    assert plot.locator(".main-svg").first.bounding_box()["height"] == 260
    assert plot.locator(".cartesianlayer path.js-line").count() == 2


# What a figure draws: names, numbers and colours of its traces, and how many of them are lines on the page.
TRACES = """k => {
  const plot = document.querySelectorAll('.js-plotly-plot')[k];
  const traces = plot?.data?.map(({name, x, y, line}) => [name, [...(x ?? [])], [...(y ?? [])], line?.color ?? null]);
  return [traces, plot?.querySelectorAll('.cartesianlayer path.js-line').length];
}"""


@pytest.mark.parametrize("anew", [False, slow(True)], ids=["second output", "page loaded anew"])
def test_a_figure_drawn_once_more_shows_what_a_change_left(notebook, anew):
    """Plotly's model writes its sign for "as it was" into the figure's data, from which the next view is drawn."""
    notebook.python("setattr(later, 'children', [])")
    notebook.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    notebook.python(f"change({3 + anew})")
    names_numbers = "[trace.name, trace.x.tolist(), trace.y.tolist(), trace.line.color]"
    expected = [notebook.python(f"[{names_numbers} for trace in pair.data]"), 2]
    notebook.sees(TRACES, expected, 3)
    if anew:
        notebook.load_anew()
        notebook.sees(TRACES, expected, 3)
    notebook.python("setattr(later, 'children', [pair])")
    notebook.sees(TRACES, expected, 4)


def test_a_closed_view_keeps_no_later_one_from_changes(notebook):
    expected = [f"the half, {notebook.name}", [0.5] * 200]
    for children in ("[pair]", "[]", "[pair]"):
        notebook.python(f"setattr(later, 'children', {children})")
        notebook.sees("() => document.querySelectorAll('.js-plotly-plot').length", 4 + (children != "[]"))
        notebook.page.wait_for_timeout(300)  # it is drawn
    notebook.python(f"pair.data[0].update(y=np.full(200, 0.5), name={expected[0]!r}) and None")
    for view in (3, 4):
        notebook.sees(
            TRACES.replace("return [traces", "return [traces?.[0][0], traces?.[0][2]]; [traces"), expected, view
        )


HEADED = """from lplab import figures
curve = figures.error_curve('e4m3fn', octaves=(-12, 10))
shown = LiveFigure(figures.stacked([curve], [figures.error_curve('e5m2', octaves=(-12, 10))]))
alone = LiveFigure(curve)"""
TITLES = """() => [...document.querySelectorAll('.js-plotly-plot')].slice(4).map(plot => [
  [...plot.querySelectorAll('.lp-fig-title')].map(title => title.textContent),
  [...plot.querySelectorAll('text')]
    .filter(text => plot.querySelector('.lp-fig-title')?.textContent === text.textContent)
    .length,
])"""


def test_titles_are_written_once_also_after_the_state_was_sent_anew(notebook):
    """A page that asks for a model that it has gets its state once more: no title may come with it into the plot."""
    notebook.python(f"exec({HEADED!r}, globals())")
    titles = notebook.python("[shown.layout.meta['panels'][k]['title'] for k in (0, 1)]")
    expected = [[titles, 0], [titles[:1], 0]]
    notebook.python("setattr(later, 'children', [shown, alone])")
    notebook.sees(TITLES, expected)
    notebook.python("[shown.send_state(), alone.send_state()] and None")
    notebook.python("setattr(later, 'children', [])")
    notebook.python("setattr(later, 'children', [shown, alone])")
    notebook.sees(TITLES, expected)
    notebook.python("setattr(later, 'children', [])")


def test_a_view_that_is_closed_before_it_is_drawn_says_nothing(notebook):
    """Plotly clears a view at once and then looks for what it has cleared: "el.on is not a function"."""
    before = len(notebook.window.errors)
    for _ in range(4):
        notebook.python("[setattr(later, 'children', each) for each in ([pair], [first], [pair], [])] and None")
        notebook.page.wait_for_timeout(250)
    notebook.page.wait_for_timeout(500)
    assert notebook.window.errors[before:] == []
    notebook.python("setattr(later, 'children', [pair])")
    notebook.sees("() => document.querySelectorAll('.js-plotly-plot .main-svg .subplot').length >= 5", True)
    notebook.python("setattr(later, 'children', [])")


HATCHED = """from lplab import figures
def two(tensor):
    one = figures.magnitude_histogram(tensor, 'e4m3fn', octaves=(-12, 8))
    return figures.stacked([one], [figures.error_curve('e4m3fn', octaves=(-12, 8))])
hatched = LiveFigure(two(np.array([1e-4, 1.0, 1.1])))
def hold(tensor):
    figures.update(hatched, two(tensor))"""
# The colours of the hatches on the page.
HATCHES = """() => {
  const plot = [...document.querySelectorAll('.js-plotly-plot')].at(-1);
  return [...plot.querySelectorAll('.barlayer .point > path')]
    .map(bar => getComputedStyle(bar).fill.match(/#([^"]+)"?[)]/)?.[1])
    .filter(Boolean)
    .map(id => getComputedStyle(document.getElementById(id).querySelector('path, circle')))
    .map(({fill, stroke}) => stroke === 'none' ? fill : stroke);
}"""


def test_hatched_bars_that_come_back_keep_their_colour(notebook):
    """Plotly fills in the colour of a hatch from that of its bar; a bar that is shown again must keep it."""
    notebook.python(f"exec({HATCHED!r}, globals())")
    notebook.python("setattr(later, 'children', [hatched])")
    notebook.page.wait_for_function(f"() => ({HATCHES})().length > 0")
    orange, dots = sorted(set(notebook.page.evaluate(HATCHES)))
    assert (orange, dots) == ("rgb(213, 94, 0)", "rgb(255, 255, 255)")
    colours = f"() => [...new Set(({HATCHES})())].sort()"
    flushed, saturated, fine = "np.array([1e-4, 1.0])", "np.array([1.0, 1e4])", "np.array([1.0])"
    for tensor, hatches in [(fine, [dots]), (flushed, [orange, dots]), (saturated, [orange, dots])]:
        for shown, expected in [(fine, [dots]), (tensor, hatches)]:
            notebook.python(f"hold({shown}) and None")
            notebook.sees(colours, expected, seconds=10)
    notebook.python("setattr(later, 'children', [])")


TABLE = """'<div style="width:300px">' + figures.DataTable(
    {f'column {k}': [1000 * k] for k in range(12)}, 'A caption ' * 12
)._repr_html_() + '</div>'"""
FRAME = """() => {
  const table = document.querySelector('figure > div > table'), frame = table.parentNode;
  const [caption, style] = [frame.previousElementSibling.getBoundingClientRect(), getComputedStyle(frame)];
  const shadows = style.backgroundAttachment.split(', ').map(each => each === 'scroll');
  return [caption.width <= 300, caption.height > 30, frame.scrollWidth > frame.clientWidth,
    style.backgroundImage.split('linear-gradient').length - 1, shadows];
}"""


def test_a_wide_table_scrolls_below_its_caption_and_a_shadow_marks_where_it_goes_on(notebook):
    notebook.python("exec('from lplab import figures', globals())")
    notebook.python(f"setattr(later, 'children', [ipywidgets.HTML({TABLE})])")
    notebook.page.locator("figure table").wait_for()
    notebook.sees(FRAME, [True, True, True, 4, [False, False, True, True]])
    notebook.python("setattr(later, 'children', [])")


PAIR = """'<div>' + ''.join(f'<div style="width:{width}px">' + figures.DataTable(
    {'how': ['in pairs'], 'what it needs': ['a second register, four operations instead of one']}, 'Two columns'
)._repr_html_() + '</div>' for width in (260, 700)) + '</div>'"""
LINES = """() => [...document.querySelectorAll('figure > div')].map(frame => {
  const line = frame.querySelector('.lplab-scroll'), box = line.getBoundingClientRect();
  return [frame.scrollWidth > frame.clientWidth, line.checkVisibility(), box.width > 0 && box.width <= 260];
})"""


def test_a_table_says_to_scroll_only_where_it_is_wider_than_its_place_and_keys_scroll_it(notebook):
    page = notebook.page
    notebook.python("exec('from lplab import figures', globals())")
    notebook.python(f"setattr(later, 'children', [ipywidgets.HTML({PAIR})])")
    page.locator("figure table").first.wait_for()
    notebook.sees(LINES, [[True, True, True], [False, False, False]])
    page.locator("figure td").first.click()
    assert not page.evaluate("() => !!document.activeElement.closest('figure')"), "Jupyter keeps its shortcuts"
    page.evaluate("() => { const one = document.querySelector('figure'); one.tabIndex = -1; one.focus(); }")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "lplab-scroll"
    page.keyboard.press("ArrowRight")
    notebook.sees("() => document.querySelector('figure > div').scrollLeft > 0", True, seconds=10)
    left = "() => document.activeElement.getBoundingClientRect().left >= document.activeElement.closest('figure')"
    assert page.evaluate(left + ".getBoundingClientRect().left"), "the line stays where the table scrolls"
    notebook.python("setattr(later, 'children', [])")
