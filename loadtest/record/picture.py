"""Takes the curves of one experiment out of a report and writes them as a picture that stands alone:

    picture.py REPORT.html EXPERIMENT PICTURE.svg        EXPERIMENT counts from 1, in the order of the report
"""
import re
import sys

report, number, target = sys.argv[1:]
page = open(report, encoding="utf-8").read()
style = re.search(r"<style>(.*?)</style>", page, re.S).group(1)
experiment = page.split('<ul class="legend">')[int(number)]
names = experiment.split("</ul>", 1)[0]
chart = re.search(r"<svg(.*?)</svg>", experiment, re.S).group(1)
legend, x, y = "", 64, 0
for colour, name in re.findall(r'<li class="(c\d)">(.*?)</li>', names, re.S):
    width = 42 + 6.6 * len(name)
    if x > 64 and x + width > 860:
        x, y = 64, y + 20
    legend += f'<rect class="{colour} bar" x="{x}" y="{y}" width="18" height="4"/><text class="name" x="{x + 24}" y="{y + 6}">{name}</text>'
    x += width
legend = f'<g transform="translate(0 {-18 - y})">{legend}</g>'
chart = re.sub(r'viewBox="0 0 (\d+) (\d+)"', lambda m: f'viewBox="0 {-34 - y} {m[1]} {int(m[2]) + 40 + y}"', chart, count=1)
head, body = chart.split(">", 1)
with open(target, "w", encoding="utf-8") as picture:
    picture.write(f'<svg xmlns="http://www.w3.org/2000/svg"{head}><style>{style} svg {{ background: var(--page) }}</style>{legend}{body}</svg>\n')
